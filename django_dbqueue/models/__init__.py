from .index import DedupConstraint, HotIndex
from .job import ArchivedJob, Job
from .queryset import Enqueued, JobManager, JobQuerySet
from .queue import Queue
from .receipt import Receipt
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
    "Receipt",
    "Worker",
]
