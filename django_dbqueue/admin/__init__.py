from .jobs import ArchivedJobAdmin, JobAdmin
from .queues import QueueAdmin
from .workers import WorkerAdmin

__all__ = ["ArchivedJobAdmin", "JobAdmin", "QueueAdmin", "WorkerAdmin"]
