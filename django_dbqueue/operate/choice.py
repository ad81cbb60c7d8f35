"""Which jobs people mean: by table, queue, state, age and error, or by their ids."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import IntegerField, Q, QuerySet

from ..exceptions import Told, gettext_noop
from ..states import Status
from ..worker.served import Served
from .conditions import in_queues
from .cursor import BIGINT_MAX, BY_KEY
from .keyset import Keyset, keyset_of, keyset_of_parked, keyset_of_undated
from .moments import now_of
from .orders import IN_TURN

CHUNK_IDS = 500
IDS_MAX = 1_000_000  # of one range
ENDED = (Status.DONE, Status.BURIED)


@dataclass(frozen=True)
class Choice:
    """What is not given leaves nothing out. Ages are in seconds: of done and buried jobs since they
    ended, of the others since they were enqueued. ``error`` is a part of the newest error, class or
    message, capitals aside. ``failure`` is a fingerprint. ``until`` leaves out what ended, or else
    was enqueued, later. ``ids`` go alone: single ones, or ranges as ``5-9``."""

    states: frozenset[Status] = frozenset()
    queues: tuple[str, ...] = ()
    older_than: float | None = None
    newer_than: float | None = None
    error: str = ""
    ids: tuple[str, ...] = ()
    failure: str = ""
    until: datetime | None = None

    @property
    def is_empty(self) -> bool:
        return self == Choice()

    def matches(self, job: Any) -> bool:
        """What is asked of a job in Python: no database reads the column as the others do."""
        return self.error.casefold() in job.last_error.casefold()

    def keysets(
        self, served: Served, sources: Collection[Status], *, once: bool = True
    ) -> Iterator[Keyset]:
        """The jobs of a table that are in one of the states ``sources``, by an index of each; those
        with the given ids in whatever state. Unless ``once``, what waits for its key comes twice,
        where claims may park what is ready. ``ValueError`` where an id is none."""
        rows = self._rows(served)
        if self.ids:
            for keys in chunked(keys_of(served.model._meta.pk, self.ids)):
                yield Keyset(rows.filter(pk__in=keys), BY_KEY)
            return
        meant = {one for one in sources if not self.states or one in self.states}
        for status in IN_TURN:
            if status in meant:
                yield from self._in_state(rows, status)
            if status == Status.READY and not once and meant >= {Status.READY, Status.DELAYED}:
                yield from self._parked(rows)

    def _in_state(self, rows: QuerySet[Any], status: Status) -> Iterator[Keyset]:
        if status == Status.BURIED and self._has_bounds:
            # By the index over the time at which they failed, which is that of their end.
            yield keyset_of(self._of_age(rows, "failed_at"), status)
            if not self.failure:
                yield keyset_of_undated(self._of_age(rows, "finished_at"))
            return
        since = "finished_at" if status in ENDED else "created_at"
        yield keyset_of(self._of_age(rows, since), status)
        if status == Status.DELAYED:
            yield from self._parked(rows)

    def _parked(self, rows: QuerySet[Any]) -> Iterator[Keyset]:
        if rows.model.takes_keys:
            yield keyset_of_parked(self._of_age(rows, "created_at"))

    @property
    def _has_bounds(self) -> bool:
        bounds = (self.older_than, self.newer_than, self.until)
        return any(one is not None for one in bounds)

    def _rows(self, served: Served) -> QuerySet[Any]:
        rows: QuerySet[Any] = served.model._default_manager.using(served.using).order_by()
        if served.queue:
            rows = rows.filter(in_queues(served.model, [served.queue]))
        return rows.filter(in_queues(served.model, self.queues)) if self.queues else rows

    def _of_age(self, rows: QuerySet[Any], since: str) -> QuerySet[Any]:
        ages = {"lte": self.older_than, "gte": self.newer_than}
        bounds = {f"{since}__{name}": age for name, age in ages.items() if age is not None}
        if bounds:
            now = now_of(rows.db)
            rows = rows.filter(**{name: now - timedelta(seconds=a) for name, a in bounds.items()})
        if self.until is not None:
            known = Q(**{f"{since}__lte": self.until})
            # Of what has no end it is not known to be later.
            rows = rows.filter(known | Q(finished_at=None) if since == "finished_at" else known)
        return rows.filter(failure=self.failure) if self.failure else rows


def keys_of(field: Any, words: Iterable[str]) -> Iterator[Any]:
    """The keys that words stand for, each once; ``ValueError`` where one is none."""
    if not isinstance(field, IntegerField):
        yield from dict.fromkeys(_key(field, word) for word in words)
        return
    end: int | None = None
    for first, last in sorted(_range_of(field, word) for word in words):
        yield from range(first if end is None else max(first, end + 1), last + 1)
        end = last if end is None else max(end, last)


def _range_of(field: Any, word: str) -> tuple[int, int]:
    """The first and the last key of a range, or of one key."""
    first, is_range, last = word.partition("-")
    if not (is_range and first):
        return _key(field, word), _key(field, word)
    start, end = _key(field, first), _key(field, last)
    if not 0 <= end - start < IDS_MAX:
        text = gettext_noop("%(given)s is no range of at most %(most)s ids")
        raise Told(text, given=repr(word), most=f"{IDS_MAX:,}")
    return start, end


def _key(field: Any, word: str) -> Any:
    try:
        key = field.to_python(word)
    except (ValidationError, ValueError):
        key = None
    if key is None or (isinstance(key, int) and abs(key) > BIGINT_MAX):
        text = gettext_noop("%(given)s is no id of a job in this table")
        raise Told(text, given=repr(word))
    return key


def chunked(keys: Iterator[Any]) -> Iterator[list[Any]]:
    while chunk := list(islice(keys, CHUNK_IDS)):
        yield chunk
