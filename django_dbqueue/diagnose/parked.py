"""Why a job is buried, in one sentence."""

from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..exceptions import Bury, QueueFull
from ..lifecycle.policy import MAX_CRASHES
from ..texts.wording import ago
from .facts import Facts


def parked(facts: Facts) -> Iterator[str]:
    """How it came there, and when: each sentence twice, since one may not know when."""
    since = facts.ago("finished_at")
    with_time, without, values = _why_parked(facts)
    if since is None:
        yield without % values
    else:
        yield with_time % {"time": when(since), **values}


def _why_parked(facts: Facts) -> tuple[str, str, dict[str, Any]]:
    """With a time, without one, and what is in them."""
    most = facts.attempts_max
    if facts.crashes >= MAX_CRASHES:
        return (
            _("It was buried %(time)s: its worker died with it %(number)s times."),
            _("It was buried: its worker died with it %(number)s times."),
            {"number": facts.crashes},
        )
    if was_dropped(facts):
        return (
            _("It was dropped %(time)s: its queue was full, and a newer job needed room."),
            _("It was dropped: its queue was full, and a newer job needed room."),
            {},
        )
    others = _why_others_buried_it(facts)
    if not others and facts.last_exception == "Bury" and facts.attempts:
        return _parked_as_it_asked()
    if not others and facts.attempts >= most:
        values = {"number": facts.attempts, "most": most, "error": facts.last_exception or "?"}
        return (
            _(
                "It was buried %(time)s: %(number)s of %(most)s attempts are used up, the last one "
                "by %(error)s."
            ),
            _(
                "It was buried: %(number)s of %(most)s attempts are used up, the last one by "
                "%(error)s."
            ),
            values,
        )
    if not others and facts.last_reason and "errors" in facts.hidden:
        return _parked_as_it_asked()
    if reason := others or facts.last_reason:
        words = _("It was buried %(time)s: %(reason)s."), _("It was buried: %(reason)s.")
        return *words, {"reason": reason}
    return _parked_on_request(facts.attempts)


def _parked_as_it_asked() -> tuple[str, str, dict[str, Any]]:
    return (
        _("It was buried %(time)s, as it asked for itself."),
        _("It was buried, as it asked for itself."),
        {},
    )


def _parked_on_request(attempts: int) -> tuple[str, str, dict[str, Any]]:
    if not attempts:
        words = _("It was buried %(time)s on request."), _("It was buried on request.")
        return *words, {}
    return (
        ngettext(
            "It was buried %(time)s on request, after %(number)s attempt.",
            "It was buried %(time)s on request, after %(number)s attempts.",
            attempts,
        ),
        ngettext(
            "It was buried on request, after %(number)s attempt.",
            "It was buried on request, after %(number)s attempts.",
            attempts,
        ),
        {"number": attempts},
    )


def was_dropped(facts: Facts) -> bool:
    """Else a job of its own raised that, which has an owner."""
    is_named = facts.last_exception == QueueFull.__name__
    return is_named and not facts.errors[-1].get("owner")


def _why_others_buried_it(facts: Facts) -> str:
    """Of a job whose key has a failed one before it; what a job raises itself has an owner."""
    if facts.last_exception != Bury.__name__ or facts.errors[-1].get("owner"):
        return ""
    return str(facts.errors[-1].get("message"))


def when(seconds: float) -> str:
    return _("a moment ago") if seconds < 1 else ago(seconds)
