"""Which rows of a table a bulk action is about: what a list was asked for, as it was shown."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from django.db.models import Model, QuerySet

from ..models import Job
from ..operate.conditions import column_of, leaves_of
from ..operate.keyset import Keyset, keyset_of, keyset_of_parked
from ..operate.moments import as_of
from ..operate.orders import IN_TURN, TIMED
from ..states import Status

TIMES = ("created_at", "failed_at", "finished_at")
BOUNDS = {"gte": "from", "lte": "until"}
STATES = {status.label: status for status in Status}


class Unreadable(ValueError):
    """What is stored says of no rows which are meant."""


@dataclass(frozen=True)
class Chosen:
    """What is not given leaves nothing out. ``times``: by column, from when and until when."""

    state: Status | None = None
    queue: str = ""
    failure: str = ""
    times: Mapping[str, Mapping[str, datetime]] = field(default_factory=dict)

    @classmethod
    def in_list(cls, rows: QuerySet[Any]) -> Self | None:
        """What the rows of a list were asked for; None where that cannot be said here, as of a
        search and of a project's own filters."""
        if rows.query.is_sliced or rows.query.distinct or rows.query.combinator:
            return None
        equal: dict[str, Any] = {}
        times: dict[str, dict[str, datetime]] = {}
        timed: list[bool] = []
        for leaf in leaves_of(rows):
            name, kind = column_of(leaf), getattr(leaf, "lookup_name", "")
            value = getattr(leaf, "rhs", "")
            if value == "" or not isinstance(value, int | str | datetime):
                return None  # as of an expression, or of what ``stored`` leaves out
            word, known = BOUNDS.get(kind), times.get(name or "", {})
            if name in TIMES and word and word not in known and isinstance(value, datetime):
                times[name] = known | {word: value}
            elif name in {"queue", "failure", "status"} and kind == "exact" and name not in equal:
                equal[name] = value
            elif name == "retry_at" and kind == "isnull":
                timed.append(not value)
            else:
                return None
        asked = equal.pop("status", None)
        if asked not in {None, *Status}:
            return None
        state = None if asked is None else Status(asked)
        # As a state's index has them.
        is_known = state is not None and all(one == (state in TIMED) for one in timed)
        return cls(state, **equal, times=times) if is_known or not timed else None

    def stored(self) -> dict[str, Any]:
        """As JSON that people can read."""
        found: dict[str, Any] = {} if self.state is None else {"state": self.state.label}
        found |= {"queue": self.queue} if self.queue else {}
        found |= {"failure": self.failure} if self.failure else {}
        for name, bounds in self.times.items():
            found[name] = {word: moment.isoformat() for word, moment in bounds.items()}
        return found

    @classmethod
    def read(cls, stored: Any) -> Self:
        """``Unreadable`` where it is nothing that ``stored`` could have written."""
        try:
            given = dict(stored)
            state = STATES[given.pop("state")] if "state" in given else None
            texts = {name: str(given.pop(name, "")) for name in ("queue", "failure")}
            times = {
                TIMES[TIMES.index(name)]: {
                    str(word): datetime.fromisoformat(text) for word, text in bounds.items()
                }
                for name, bounds in given.items()
            }
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise Unreadable(f"which jobs are meant cannot be read: {stored!r:.200}") from error
        if any(bounds.keys() - BOUNDS.values() for bounds in times.values()):
            raise Unreadable(f"which jobs are meant cannot be read: {stored!r:.200}")
        return cls(state, **texts, times=times)

    def keysets(
        self,
        rows: QuerySet[Any],
        until: datetime,
        sources: Collection[Status] | None,
        *,
        once: bool = False,
    ) -> Iterator[Keyset]:
        """Those of the rows that were to be seen at a moment: through each of the states
        ``sources``, by its index; None = in whatever state. Where claims may park what is ready,
        what waits for its key comes twice, but with ``once``."""
        rows = as_of(self._of(rows), until)
        has_states = issubclass(rows.model, Job)
        if sources is None:
            yield keyset_of(rows, self.state, has_states)
            return
        for status in IN_TURN:
            if status not in sources or self.state not in {None, status}:
                continue
            yield keyset_of(rows, status)
            # They have no time, and are in no tab of a state.
            comes = status == Status.DELAYED or (status == Status.READY and not once)
            if comes and Status.DELAYED in sources and self.state is None and rows.model.takes_keys:
                yield keyset_of_parked(rows)

    def _of(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        asked: dict[str, Any] = {}
        if self.queue:
            asked["queue"] = self.queue
        if self.failure:
            asked["failure"] = self.failure
        lookups = {word: lookup for lookup, word in BOUNDS.items()}
        for name, bounds in self.times.items():
            asked |= {f"{name}__{lookups[word]}": moment for word, moment in bounds.items()}
        return rows.filter(**asked)


def rows_of(model: type[Model], alias: str) -> QuerySet[Any]:
    return model._default_manager.using(alias).order_by()
