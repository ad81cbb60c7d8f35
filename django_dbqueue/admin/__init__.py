from .jobs import ArchivedJobAdmin, JobAdmin
from .workers import WorkerAdmin

__all__ = ["ArchivedJobAdmin", "JobAdmin", "WorkerAdmin"]
