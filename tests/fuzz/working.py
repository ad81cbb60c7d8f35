"""A worker at work among rows of nonsense; what it logs is listened to."""

import logging
import time

from django.db.models import QuerySet

from django_dbqueue.states import Status
from django_dbqueue.testing import InlineWorker
from tests.kit.inline_worker import logged

# What a worker logs when a row stops more than itself.
ERROR_KINDS = (
    "claiming: ",
    "recording outcomes: ",
    "cannot be written",
    "the reaper leaves",
    "is left out",
    "went wrong",
)


def work_off(good, *labels, seconds=30):
    """Until the good jobs, keys by model, are done, and three times more; the troubles."""
    deadline = time.monotonic() + seconds
    with logged(logging.WARNING) as log, InlineWorker(*labels) as worker:
        while any(left(model, keys) for model, keys in good.items()):
            assert time.monotonic() < deadline, f"good jobs wait: {log.lines[-3:]}"
            worker.run()
        for _ in range(3):
            worker.run()
    return [line for line in log.lines if any(trouble in line for trouble in ERROR_KINDS)]


def left(model, keys):
    done = QuerySet(model).filter(pk__in=keys, status=Status.DONE)
    return len(keys) - done.count()
