from .index import DedupConstraint, HotIndex
from .job import ArchivedJob, Job
from .queryset import Enqueued, JobManager, JobQuerySet
from .queue import Queue
from .worker import Worker

__all__ = [
    "ArchivedJob",
    "DedupConstraint",
    "Enqueued",
    "HotIndex",
    "Job",
    "JobManager",
    "JobQuerySet",
    "Queue",
    "Worker",
]
