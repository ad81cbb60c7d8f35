from .archived import ArchivedJob
from .index import DedupConstraint, HotIndex, PartialIndex
from .job import Job
from .minute import Minute
from .queryset import Enqueued, JobManager, JobQuerySet
from .queue import Queue
from .receipt import Receipt
from .total import Total
from .traced import Traced
from .worker import Worker

__all__ = [
    "ArchivedJob",
    "DedupConstraint",
    "Enqueued",
    "HotIndex",
    "Job",
    "JobManager",
    "JobQuerySet",
    "Minute",
    "PartialIndex",
    "Queue",
    "Receipt",
    "Total",
    "Traced",
    "Worker",
]
