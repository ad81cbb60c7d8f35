"""A system that does not tell how much memory a process uses, as macOS."""

from django_dbqueue.worker import children
from testproject.settings import *  # noqa: F403

children.STATM = "/nowhere/{}/statm"
