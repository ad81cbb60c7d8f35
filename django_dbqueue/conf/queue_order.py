"""Which queues come first: ``high,default`` one after the other, ``high=3,default=1`` by weight."""

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from django.core.exceptions import ValidationError

from ..exceptions import Told, gettext_noop, shown
from ..fields import check_name

WILDCARD = "*"
WEIGHT_MAX = 1000
ENTRIES_MAX = 100


def is_pattern(name: str) -> bool:
    return WILDCARD in name


@lru_cache(maxsize=10_000)
def matches(pattern: str, name: str) -> bool:
    """Whether a pattern, whose ``*`` stands for any text, or none, means this queue."""
    parts = map(re.escape, pattern.split(WILDCARD))
    return re.fullmatch(".*".join(parts), name, re.DOTALL) is not None


@dataclass(frozen=True)
class QueueOrder:
    """Patterns of names in order, and a weight for each where they are weighed."""

    patterns: tuple[str, ...] = ()
    weights: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def rank(self, queue: str) -> int:
        """The place of the first pattern that means this queue; the last place, where none does."""
        for place, pattern in enumerate(self.patterns):
            if matches(pattern, queue):
                return place
        return len(self.patterns)

    def draw(self) -> list[int]:
        """The ranks, in the order in which one job is looked for: that given, or by lot."""
        ranks = range(len(self.patterns) + 1)
        if not self.weights:
            return list(ranks)
        lots = [random.random() ** (1 / weight) for weight in self.weights]
        return sorted(ranks, key=lambda rank: -lots[rank] if rank < len(lots) else 1.0)

    def __str__(self) -> str:
        if not self.weights:
            return ",".join(self.patterns)
        pairs = zip(self.patterns, self.weights, strict=True)
        return ",".join(f"{pattern}={weight}" for pattern, weight in pairs)


IN_TURN = QueueOrder()


def parse_order(words: str | Iterable[str]) -> QueueOrder:
    """Read ``high,default`` or ``high=3,default=1``; ``ValueError`` says what is wrong with it."""
    words = words.split(",") if isinstance(words, str) else list(words)
    if len(words) > ENTRIES_MAX:
        text = gettext_noop("%(number)s queues are named in order; the limit is %(most)s")
        raise Told(text, number=len(words), most=ENTRIES_MAX)
    parts = [_split(word) for word in words]
    names = [name for name, _ in parts]
    weights = [weight for _, weight in parts if weight is not None]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Told(gettext_noop("%(name)s is named twice"), name=repr(twice))
    if weights and len(weights) < len(parts):
        bare = next(name for name, weight in parts if weight is None)
        text = gettext_noop(
            "%(name)s has no weight: give one to each queue, as in a=3,b=1, or none"
        )
        raise Told(text, name=repr(bare))
    return QueueOrder(tuple(names), tuple(weights))


def _split(word: object) -> tuple[str, int | None]:
    if not isinstance(word, str):
        raise Told(gettext_noop("%(name)s is no queue's name"), name=shown(word))
    name, has_weight, number = word.strip().rpartition("=")
    if not has_weight:
        name, weight = number, None
    elif not number.isdecimal() or not 1 <= int(number) <= WEIGHT_MAX:
        text = gettext_noop(
            "the weight of %(name)s must be a whole number of at least 1 and at most %(most)s, "
            "not %(given)s"
        )
        raise Told(text, name=repr(name), most=WEIGHT_MAX, given=shown(number))
    else:
        weight = int(number)
    refuse_odd(name, "queue")
    return name, weight


def refuse_odd(name: str, field: str) -> None:
    """``ValueError`` where it is no name."""
    try:
        check_name(name, field)
    except ValidationError as error:
        raise ValueError(error.messages[0]) from None
