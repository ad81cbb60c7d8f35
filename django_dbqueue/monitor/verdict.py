"""Whether all is well, in one sentence."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ..metrics.numbers import Count, sum_of
from ..states import Status
from .alerts import Alert, alerts
from .failures import Failures
from .overview import Overview

NAMED_MAX = 2  # kinds of failures in one sentence


class Level(StrEnum):
    """``act``: jobs are late or harmed now; ``look``: something is not as it should be."""

    OK = "ok"
    LOOK = "look"
    ACT = "act"


BEGINNINGS = {Level.LOOK: "Worth a look", Level.ACT: "Act now"}


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
    more = f" And {others} more problem{'s' * (others > 1)}." if others else ""
    sentence = f"{BEGINNINGS[level]}: {problems[0].text}{more}"
    return Verdict(level, sentence, problems, pauses, paused)


def _all_is_well(found: Overview) -> str:
    living = sum(one.lives and bool(one.serves) for one in found.workers)
    done = sum(one.hour.completed for one in found.queues)
    open_ones = [one for one in found.queues if one.paused is None]
    ready = sum_of(one.count(Status.READY) for one in open_ones)
    waiting = replace(ready, number=ready.number + sum(one.due for one in open_ones))
    waits = _told(waiting, "to do") if waiting.number else "nothing to do"
    who = f"{living} {_plural(living, 'worker')} at work, " if living else ""
    return f"All is well: {who}{waits}, {done:,} done in the last hour."


def _of_failures(failed: Failures) -> list[Alert]:
    """Jobs that have failed for good, of the kinds of failures of the last hour."""
    fresh = [one for one in failed.groups if one.here.buried and one.hour]
    if not fresh:
        return []
    attempts = sum(one.hour for one in fresh)
    number = sum(one.here.buried for one in fresh)
    more = "+" * any(one.here.is_at_least for one in fresh)
    names = [one.failure.exception.rpartition(".")[2] or "an error" for one in fresh]
    named = ", ".join(dict.fromkeys(names[:NAMED_MAX])) + ", ..." * (len(names) > NAMED_MAX)
    wait = "wait" if number > 1 else "waits"
    lately = f"{attempts:,} {_plural(attempts, 'attempt')} failed in the last hour"
    such = f"{number:,}{more} such {_plural(number, 'job')} {wait} for a person"
    text = f"{lately}, and {such}: {named}."
    advice = "Read the errors, and retry the jobs once the cause is gone."
    return [Alert(text, advice, is_urgent=False, kind="buried")]


def _paused(found: Overview, pauses: Sequence[Alert]) -> str:
    if not pauses:
        return ""
    held = [one for one in found.queues if one.paused is not None]
    ready = sum_of(one.count(Status.READY) for one in held)
    queues = f"{len(held)} {_plural(len(held), 'queue')}"
    return f"Paused on purpose: {queues}, {_told(ready, 'in them', 'ready ')}."


def _told(count: Count, where: str, what: str = "") -> str:
    """``6,700 ready jobs in them (20 s ago)``."""
    age = f" ({count.age})" if count.age else ""
    return f"{count.text} {what}{_plural(count.number, 'job')} {where}{age}"


def _plural(number: int, noun: str) -> str:
    return noun if number == 1 else f"{noun}s"
