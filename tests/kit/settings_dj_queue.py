"""The test project as it was with dj-queue."""

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS

INSTALLED_APPS += ["dj_queue"]
TASKS = {"default": {"BACKEND": "dj_queue.backend.DjQueueBackend", "QUEUES": []}}  # type: ignore[dict-item]
