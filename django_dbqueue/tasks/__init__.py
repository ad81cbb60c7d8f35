"""Django Tasks: ``django_dbqueue.tasks.backends.DatabaseBackend`` for ``settings.TASKS``."""

from .context import Context
from .queued_task import QueuedTask, task

__all__ = ["Context", "QueuedTask", "task"]
