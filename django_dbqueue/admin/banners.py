"""What is wrong, above the pages that it is about."""

from django.db import router
from django.db.models import Model
from django.http import HttpRequest

from ..alarms import Alarm, alarms
from ..models import Job
from ..overview import overview
from ..worker.options import Served


def banners_for(_: HttpRequest, model: type[Model]) -> list[Alarm]:
    """Of one queue table: its queues, and the workers that serve it. Bounded, whatever it holds."""
    if not issubclass(model, Job):
        return []
    served = Served(model, router.db_for_write(model))
    found = overview([served])
    found.members = [one for one in found.members if one.knows(served.label)]
    return alarms(found)
