from .archived import ArchivedJob
from .count import QueueCount, TableCount
from .enqueued import Enqueued
from .failure import FailureCount, FailureKind
from .index import DedupConstraint, HotIndex, PartialIndex
from .job import Job
from .keyed import KeyColumns, KeyedJob
from .minute import Minute
from .queryset import JobManager, JobQuerySet
from .queue import Queue
from .rate_bucket import RateBucket
from .receipt import Receipt
from .room import QueueRoom
from .total import Total
from .traced import Traced
from .worker import Worker

__all__ = [
    "ArchivedJob",
    "DedupConstraint",
    "Enqueued",
    "FailureCount",
    "FailureKind",
    "HotIndex",
    "Job",
    "JobManager",
    "JobQuerySet",
    "KeyColumns",
    "KeyedJob",
    "Minute",
    "PartialIndex",
    "Queue",
    "QueueCount",
    "QueueRoom",
    "RateBucket",
    "Receipt",
    "TableCount",
    "Total",
    "Traced",
    "Worker",
]
