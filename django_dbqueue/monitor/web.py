"""Views for machines: whether all is well, and all that the first page shows.

In ``urls.py``: ``path("healthz", healthz_view)``, ``path("queues.json", status_view)``.
"""

import threading
import time
from dataclasses import dataclass

from django.db.utils import Error
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from .access import may_read, refusal
from .document import document
from .glance import glance
from .verdict import Level, Verdict

ASKED_EVERY = 5.0  # seconds, whoever asks, and however often


@dataclass
class _Answered:
    """The last verdict of this process, and when it was asked for, by the monotonic clock."""

    verdict: Verdict
    at: float


class Health:
    """Asks the databases once for all who ask at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: _Answered | None = None

    def verdict(self) -> Verdict:
        with self._lock:
            if self._last is None or time.monotonic() - self._last.at >= ASKED_EVERY:
                self._last = _Answered(glance().verdict, time.monotonic())
            return self._last.verdict

    def forget(self) -> None:
        self._last = None


HEALTH = Health()


@never_cache
@require_safe
def healthz_view(request: HttpRequest) -> HttpResponse:
    """200 with ``ok`` or ``look``, 503 with ``act``. Anybody may ask: who may read the metrics is
    told what is wrong, too. It may be 5 seconds old."""
    found = HEALTH.verdict()
    lines = [str(found.level)]
    if _may_read(request):
        lines += [found.sentence, *(one.text for one in found.problems[1:])]
    status = 503 if found.level is Level.ACT else 200
    return HttpResponse("\n".join([*lines, ""]), status=status, content_type="text/plain")


@never_cache
@require_safe
def status_view(request: HttpRequest) -> HttpResponse:
    """As JSON all that the first page of the admin shows, for those who may read the metrics."""
    if not may_read(request):
        return refusal("queues")
    return JsonResponse(document(glance()))


def _may_read(request: HttpRequest) -> bool:
    try:
        return may_read(request)
    except Error:  # the database of users is away
        return False
