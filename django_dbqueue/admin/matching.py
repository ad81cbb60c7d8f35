"""All that match: what was found and counted of them when it was asked, and is acted on after that,
whatever else matches by then."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _

from ..fields import InstantField
from ..metrics.numbers import Count
from ..operate import walking
from ..operate.cursor import BY_KEY
from ..operate.keyset import Keyset
from ..operate.moments import now_of
from ..operate.orders import IN_TURN, of_keys
from ..texts.wording import number
from .changelist import LONG_WALK_SECONDS
from .search import as_key

# The rows of one action, whichever it is.
ROWS_MAX = 10_000
CHUNK_ROWS = 500
PRESS_SECONDS = 10  # after which one action changes no more
# What the form of the question carries: the keys of what was found, in one field; or the moment up
# to which jobs are meant; and whether more match.
KEYS_FIELD, UNTIL_FIELD, MORE_FIELD = "dbqueue_keys", "dbqueue_until", "dbqueue_more"

# By a word for it, the rows of a state.
ByState = Sequence[tuple[Any, Keyset]]


@dataclass
class Found:
    """What match: how many by state, and their keys, state by state. ``has_more``: beyond the most
    of one action; ``is_cut``: the time was over before all rows were looked at."""

    groups: list[list[Any]]
    counts: list[tuple[str, str]] = field(default_factory=list)
    has_more: bool = False
    is_cut: bool = False
    until: datetime | None = None  # when they were looked for

    @property
    def keys(self) -> list[Any]:
        return [key for group in self.groups for key in group]

    @property
    def is_partial(self) -> bool:
        return self.has_more or self.is_cut

    @property
    def note(self) -> str:
        """What the question says of those that are not among them."""
        if self.has_more:
            text = _("More match: at most %(most)s are changed at once. Repeat it for the others.")
            return text % {"most": number(ROWS_MAX)}
        if not self.is_cut:
            return ""
        text = _(
            "Within %(seconds)s s not all rows could be looked at: it is done to those that are "
            "counted here. More filters find the others."
        )
        return text % {"seconds": number(LONG_WALK_SECONDS)}

    def hidden(self, names_keys: bool = True) -> dict[str, str]:
        """The fields of the form; without the keys where more match, and what has a value already
        would be among the first of them for ever."""
        fields = {}
        if self.is_partial and self.until is not None:
            fields[UNTIL_FIELD] = self.until.isoformat()
        if self.has_more and not names_keys:
            return fields
        packed = json.dumps([group for group in self.groups if group], default=str)
        return fields | {KEYS_FIELD: packed, **({MORE_FIELD: "1"} if self.has_more else {})}


def find(queryset: QuerySet[Any], by_state: ByState) -> Found:
    """At most 10,000 of all that match, by the indexes of their states; where none answers for a
    filter, those that are found within ten seconds."""
    found, left = Found([], until=now_of(queryset.db)), ROWS_MAX
    give_up = time.monotonic() + LONG_WALK_SECONDS
    for word, keyset in by_state:
        light = keyset.queryset.select_related(None).only("pk", *keyset.order.names)
        keys: list[Any] = []
        for page in walking.pages(keyset.of(light), CHUNK_ROWS):
            keys += [row.pk for row in page.rows]
            found.has_more = len(keys) > left
            found.is_cut = time.monotonic() >= give_up and not page.is_last
            if found.has_more or found.is_cut:
                break
        found.groups.append(keys[:left])
        is_at_least = found.has_more or found.is_cut
        count = Count(min(len(keys), left), is_at_least)
        found.counts.append((str(word), str(count)))
        left -= count.number
        if is_at_least:
            break
    return found


def sample(rows: QuerySet[Any], keys: Sequence[Any]) -> list[Any]:
    """The rows that have these keys, in their order."""
    named = of_keys(rows.order_by(), keys).in_bulk()
    return [named[key] for key in keys if key in named]


def is_told(request: HttpRequest) -> bool:
    """Whether somebody was asked before, and which jobs were counted for that."""
    return any(request.POST.get(name) for name in (KEYS_FIELD, UNTIL_FIELD))


def packed_keys(request: HttpRequest, model: type[Any]) -> list[list[Any]] | None:
    """Those that were packed into one field, group by group; None where there were none."""
    packed, left = request.POST.get(KEYS_FIELD), ROWS_MAX
    if not packed:
        return None
    groups: list[list[Any]] = []
    for group in _lists_in(packed)[: len(IN_TURN) + 1]:
        words = group[:left]
        groups.append([key for word in words for key in as_key(model._meta.pk, str(word))])
        left -= len(words)
    return groups


def _lists_in(packed: str) -> list[list[Any]]:
    try:
        found = json.loads(packed)
    except (ValueError, RecursionError):
        return []
    return [one for one in found if isinstance(one, list)] if isinstance(found, list) else []


def by_keys(rows: QuerySet[Any], groups: Sequence[Sequence[Any]]) -> Iterator[Keyset]:
    """Each group by itself: what waits for a job becomes ready once that is taken out."""
    for keys in groups:
        for start in range(0, len(keys), CHUNK_ROWS):
            yield Keyset(of_keys(rows.order_by(), keys[start : start + CHUNK_ROWS]), BY_KEY)


def asked_at(request: HttpRequest) -> datetime | None:
    """The moment up to which jobs are meant; None where the form has none."""
    try:
        moment = datetime.fromisoformat(request.POST.get(UNTIL_FIELD, ""))
        found: datetime = InstantField().get_prep_value(moment)
    except (ValidationError, ValueError):
        return None
    return found
