"""A system that does not tell how much memory a process uses, as macOS."""

from django_dbqueue.worker import memory
from testproject.settings import *  # noqa: F403

memory.STATM = "/nowhere/{}/statm"
