"""What a look at queue tables reads of a row, and what is wrong with names and keys of rows."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from ..fields import check_name


@dataclass(frozen=True)
class Row:
    """What is looked at of one row; ``rule`` is the number of the first one that it breaks, in the
    list that was asked for."""

    key: Any
    queue: Any
    status: Any
    owner: Any
    dedup_key: Any
    rule: int | None


Broken = tuple[Row, str, str]  # what is wrong with it, and the advice


def misnamed(row: Row) -> Iterator[Broken]:
    """A queue or a dedup key that no database would compare as the others do."""
    named = {"queue": row.queue, "dedup_key": row.dedup_key}
    for column, name in named.items():
        if column == "dedup_key" and name is None:
            continue
        try:
            check_name(name, column)
        except ValidationError as error:
            what = _("has a %(column)s that is no name: %(why)s")
            values = {"column": column, "why": error.messages[0]}
            yield row, what % values, _("correct %(column)s") % values


def twins_among(found: Iterable[Row]) -> Iterator[Broken]:
    """Jobs that wait with the same dedup key in the same queue."""
    groups: dict[tuple[Any, Any], list[Row]] = defaultdict(list)
    for row in found:
        if row.dedup_key is not None:
            groups[row.queue, row.dedup_key].append(row)
    for twins in groups.values():
        if len(twins) > 1:
            what = _("has a dedup_key that another job has, too")
            advice = _("cancel() all but one, and migrate: the table has lost its constraint")
            yield from ((row, what, advice) for row in twins)
