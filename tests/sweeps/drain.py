"""A healthy worker does what a fault has left."""

from django.db import close_old_connections
from django.db.models import QuerySet

from django_dbqueue.states import Status
from tests.kit.waiting import wait_until
from tests.queueapp.models import Chore
from tests.sweeps.stage import let_time_pass, let_workers_look_dead
from tests.sweeps.stepwise import MODELS, StepwiseWorker

UNDER_WAY = (Status.READY, Status.CLAIMED, Status.DELAYED)


def drain_after_death():
    """The dead are missed first."""
    let_workers_look_dead()
    drain()


def drain():
    # As between two requests: what met with an error may be out of autocommit.
    close_old_connections()
    Chore.objects.resume("quiet")
    worker = StepwiseWorker()
    worker.beat()
    wait_until(lambda: _pass(worker))
    worker.reap()
    worker.sign_off()
    worker.close()


def _pass(worker):
    """Whether nothing is left to do after it."""
    let_time_pass()
    worker.reap()
    worker.work()
    return not any(QuerySet(model).filter(status__in=UNDER_WAY).exists() for model in MODELS)
