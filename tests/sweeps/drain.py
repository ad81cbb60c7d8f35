"""A healthy worker does what a fault has left."""

from django.db.models import QuerySet

from django_dbqueue.states import Status
from tests.kit.waiting import wait_until
from tests.queueapp.models import Chore
from tests.sweeps.clerk import MODELS, Clerk
from tests.sweeps.stage import let_time_pass, let_workers_look_dead

UNDER_WAY = (Status.READY, Status.CLAIMED, Status.DELAYED)


def drain_after_death():
    """The dead are missed first."""
    let_workers_look_dead()
    drain()


def drain():
    Chore.objects.resume("quiet")
    clerk = Clerk()
    clerk.beat()
    wait_until(lambda: _pass(clerk), 10)
    clerk.reap()
    clerk.sign_off()
    clerk.close()


def _pass(clerk):
    """Whether nothing is left to do after it."""
    let_time_pass()
    clerk.reap()
    clerk.work()
    return not any(QuerySet(model).filter(status__in=UNDER_WAY).exists() for model in MODELS)
