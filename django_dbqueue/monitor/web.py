"""Views for machines: whether all is well, and all that the first page shows.

In ``urls.py``: ``path("healthz", healthz_view)``, ``path("queues.json", status_view)``.
"""

import threading
import time
from dataclasses import dataclass

from django.core.exceptions import ImproperlyConfigured
from django.db.utils import Error
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import override
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from ..exceptions import first_line
from .access import may_read, may_see_workers, outside_transactions, refusal
from .alerts import Alert
from .document import document
from .glance import glance
from .verdict import Level, Verdict, unnamed, with_level

ASKED_EVERY = 5.0  # seconds, whoever asks, and however often
FRESH = 30.0  # seconds for which a verdict is told while another look lasts
WAITS = 2.0  # seconds, at the most, of one who asks while another looks


@dataclass
class _Answered:
    """The last verdict of this process, and when it was asked for, by the monotonic clock."""

    verdict: Verdict
    at: float

    def is_younger(self, seconds: float) -> bool:
        return time.monotonic() - self.at < seconds


class Health:
    """Asks the databases once for all who ask at the same time. Only the one that looks waits for
    them, however long that lasts; a look that fails is remembered as long as another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: _Answered | None = None

    def verdict(self) -> Verdict:
        """In English, whatever language the first one who asks reads."""
        with override(None):
            return self._verdict()

    def _verdict(self) -> Verdict:
        last = self._last
        if last is not None and last.is_younger(ASKED_EVERY):
            return last.verdict
        is_known = last is not None and last.is_younger(FRESH)
        if not self._lock.acquire(timeout=0 if is_known else WAITS):
            if is_known and last is not None:
                return last.verdict
            return cannot_be_asked("another look at the databases has not ended")
        try:
            return self._newest().verdict
        finally:
            self._lock.release()

    def _newest(self) -> _Answered:
        """With the lock: another may have looked meanwhile."""
        if self._last is None or not self._last.is_younger(ASKED_EVERY):
            found = cannot_be_asked("the last look failed, see the log")
            try:
                found = _looked()
            finally:
                self._last = _Answered(found, time.monotonic())
        return self._last

    def forget(self) -> None:
        self._last = None


def _looked() -> Verdict:
    try:
        return glance().verdict
    except (Error, ImproperlyConfigured, ImportError) as error:  # the last two: no driver
        return cannot_be_asked(first_line(error))


def cannot_be_asked(why: str) -> Verdict:
    text = f"it cannot be asked: {why}"
    return Verdict(Level.ACT, with_level(Level.ACT, text), [Alert(text, "")])


HEALTH = Health()


@outside_transactions
@never_cache
@require_safe
def healthz_view(request: HttpRequest) -> HttpResponse:
    """200 with ``ok`` or ``look``, 503 with ``act``. Anybody may ask: who may read the metrics is
    told what is wrong, too. It may be 5 seconds old, and 30 while another look lasts."""
    found = HEALTH.verdict()
    lines = [str(found.level)]
    if _may_read(request):
        told = found if may_see_workers(request) else unnamed(found)
        lines += [told.sentence, *(one.text for one in told.problems[1:])]
    status, kind = 503 if found.level is Level.ACT else 200, "text/plain; charset=utf-8"
    return HttpResponse("\n".join([*lines, ""]), status=status, content_type=kind)


@outside_transactions
@never_cache
@require_safe
def status_view(request: HttpRequest) -> HttpResponse:
    """As JSON all that the first page of the admin shows, for those who may read the metrics; a
    person who may not see workers is not told of them."""
    if not may_read(request):
        return refusal("queues")
    sees_workers = may_see_workers(request)
    with override(None):  # what is for programs is English
        seen = glance() if sees_workers else glance().without_workers()
        return JsonResponse(document(seen, sees_workers=sees_workers))


def _may_read(request: HttpRequest) -> bool:
    try:
        return may_read(request)
    except Error:  # the database of users is away
        return False
