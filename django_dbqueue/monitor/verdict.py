"""Whether all is well, in one sentence."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..metrics.numbers import Count, sum_of
from ..states import Status
from ..texts.wording import number
from .alerts import Alert, alerts
from .failures import Failures
from .overview import Overview
from .worker_list import without_names

NAMED_MAX = 2  # kinds of failures in one sentence


class Level(StrEnum):
    """``act``: jobs are late or harmed now; ``look``: something is not as it should be."""

    OK = "ok"
    LOOK = "look"
    ACT = "act"


@dataclass
class Verdict:
    """``problems``: the urgent ones first; ``pauses``: what people have stopped on purpose, which
    is no problem."""

    level: Level
    sentence: str
    problems: list[Alert] = field(default_factory=list)
    pauses: list[Alert] = field(default_factory=list)
    paused: str = ""  # all of them in one line


def verdict(found: Overview, failed: Failures) -> Verdict:
    all_of_them = alerts(found)
    pauses = [one for one in all_of_them if one.kind == "pause"]
    problems = [one for one in all_of_them if one.kind != "pause"]
    problems += _of_failures(failed)
    paused = _paused(found, pauses)
    if not problems:
        return Verdict(Level.OK, _all_is_well(found), [], pauses, paused)
    level = Level.ACT if problems[0].is_urgent else Level.LOOK
    others = len(problems) - 1
    sentence = with_level(level, problems[0].text)
    if others:
        more = ngettext("And %(number)s more problem.", "And %(number)s more problems.", others)
        sentence += f" {more % {'number': number(others)}}"
    return Verdict(level, sentence, problems, pauses, paused)


def unnamed(found: Verdict) -> Verdict:
    """For those who may not see workers."""
    named = [one.worker for one in found.problems if one.worker is not None]
    named += [w for one in found.problems if one.queue is not None for w in one.queue.workers]
    problems = [replace(one, text=without_names(one.text, named)) for one in found.problems]
    return replace(found, sentence=without_names(found.sentence, named), problems=problems)


def with_level(level: Level, text: str) -> str:
    """How bad it is, and what it is."""
    if level is Level.ACT:
        return _("Act now: %(problem)s") % {"problem": text}
    return _("Worth a look: %(problem)s") % {"problem": text}


def _all_is_well(found: Overview) -> str:
    living = sum(one.lives and bool(one.serves) for one in found.workers)
    done = sum(one.hour.completed for one in found.queues)
    done += sum(one.completed for one in found.others)
    waiting = _waiting(found)
    waits = _("nothing waits")
    if waiting.number:
        waits = ngettext("%(jobs)s job to do", "%(jobs)s jobs to do", waiting.number)
        waits = _aged(waits % {"jobs": waiting.text}, waiting)
    values = {"waits": waits, "done": number(done), "workers": number(living)}
    if not living:
        return _("All is well: %(waits)s, %(done)s done in the last hour.") % values
    text = ngettext(
        "All is well: %(workers)s worker at work, %(waits)s, %(done)s done in the last hour.",
        "All is well: %(workers)s workers at work, %(waits)s, %(done)s done in the last hour.",
        living,
    )
    return text % values


def _waiting(found: Overview) -> Count:
    """What there is to do now, of all that is not paused."""
    queues = [one for one in found.queues if one.paused is None]
    others = [one for one in found.others if not one.is_paused]
    ready = [one.count(Status.READY) for one in queues]
    due = [Count(one.due, one.due_at_least) for one in queues]
    ready += [one.counts[Status.READY] for one in others]
    due += [Count(one.due) for one in others]
    return sum_of([*ready, *due])


def _of_failures(failed: Failures) -> list[Alert]:
    """Jobs that have failed for good, of the kinds of failures of the last hour."""
    fresh = [one for one in failed.groups if one.here.buried and one.hour]
    if not fresh:
        return []
    attempts = sum(one.hour for one in fresh)
    buried = sum(one.here.buried for one in fresh)
    more = "+" * any(one.here.is_at_least for one in fresh)
    every = [one.failure.exception.rpartition(".")[2] or _("an error") for one in fresh]
    names = list(dict.fromkeys(every))
    others = len(names) - NAMED_MAX
    named = ", ".join(names[:NAMED_MAX]) + (f" (+{others})" if others > 0 else "")
    lately = ngettext(
        "%(number)s attempt failed in the last hour",
        "%(number)s attempts failed in the last hour",
        attempts,
    )
    such = ngettext(
        "%(attempts)s, and %(number)s such job waits for a person: %(names)s.",
        "%(attempts)s, and %(number)s such jobs wait for a person: %(names)s.",
        buried,
    )
    lately %= {"number": number(attempts)}
    text = such % {"attempts": lately, "number": f"{number(buried)}{more}", "names": named}
    advice = _("Read the errors, and retry the jobs once the cause is gone.")
    return [Alert(text, advice, is_urgent=False, kind="buried")]


def _paused(found: Overview, pauses: Sequence[Alert]) -> str:
    if not pauses:
        return ""
    held = [one for one in found.queues if one.paused is not None]
    others = [one for one in found.others if one.is_paused]
    ready = sum_of(
        [one.count(Status.READY) for one in held] + [one.counts[Status.READY] for one in others]
    )
    queues = sum_of([Count(len(held)), *(one.number for one in others)])
    jobs = ngettext("%(jobs)s ready job in them", "%(jobs)s ready jobs in them", ready.number)
    text = ngettext(
        "Paused on purpose: %(queues)s queue, %(jobs)s.",
        "Paused on purpose: %(queues)s queues, %(jobs)s.",
        queues.number,
    )
    return text % {
        "queues": queues.text,
        "jobs": _aged(jobs % {"jobs": ready.text}, ready),
    }


def _aged(text: str, count: Count) -> str:
    """``6,700 ready jobs in them (20 s ago)``."""
    return f"{text} ({count.age})" if count.age else text
