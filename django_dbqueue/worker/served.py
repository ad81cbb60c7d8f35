"""Which queue tables, and which of their queues, somebody looks after."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import connections, router

from ..conf import nearest
from ..conf.queue_order import QueueOrder, is_pattern, matches
from ..exceptions import shown
from ..fields import check_name
from ..lifecycle.limiter import base_of, limiter_of
from ..models import Job

ANY_TABLE = "*"

# By label, the queues that this code can run, where it cannot run all.
RUNNABLE: dict[str, Callable[[], Collection[str]]] = {}


class UnknownTable(ValueError):
    """A queue table was named that is not installed."""


@dataclass(frozen=True)
class Served:
    """A queue table on a database, and those of its queues to serve: names, or patterns of them.

    ``queue``: the only one; ``among``: only these; ``left_out``: none of these.
    """

    model: type[Job]
    using: str
    queue: str | None = None
    left_out: frozenset[str] = frozenset()
    among: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return self.model._meta.label_lower

    @property
    def job_table(self) -> str:
        """What is stored of it is found by: its class may be renamed."""
        return self.model._meta.db_table

    @property
    def place(self) -> tuple[str, str]:
        """As ``Table.place``."""
        return self.using, self.label

    @property
    def is_only(self) -> bool:
        """Whether jobs of its table come in on no other database."""
        return len(self.model.written_databases()) < 2

    @property
    def title(self) -> str:
        """Its table, as commands take it: with the database where that is on several."""
        return self.label if self.is_only else f"{self.label}@{self.using}"

    def takes(self, queue: str) -> bool:
        """Whether it means a queue that this code can run."""
        runnable = RUNNABLE.get(self.label)
        if runnable is not None and queue not in runnable():
            return False
        return self.means(queue)

    def means(self, queue: str) -> bool:
        """Whether a queue, or the one that it is a lane of, is among those that were named."""
        names = {queue, base_of(self.model, queue)} if self.has_lanes else {queue}

        def is_among(wanted: Iterable[str]) -> bool:
            return any(matches(one, name) for one in wanted for name in names)

        if self.queue is not None and not is_among([self.queue]):
            return False
        if self.among and not is_among(self.among):
            return False
        return not is_among(self.left_out)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The names and patterns that it may take; none = all."""
        return self.among if self.queue is None else (self.queue,)

    @property
    def exact(self) -> tuple[str, ...]:
        """The names among them that are no patterns."""
        return tuple(name for name in self.wanted if not is_pattern(name))

    def names(self) -> list[str]:
        """What it serves, as others read it."""
        return [f"{self.label}:{name}" for name in self.wanted] or [self.label]

    @property
    def has_lanes(self) -> bool:
        """Whether jobs of one key stand in a queue of their own."""
        limiter = limiter_of(self.model)
        return limiter is not None and limiter.has_lanes

    def __str__(self) -> str:
        return f"{self.label}:{self.queue}" if self.queue else self.label


def queue_tables() -> list[type[Job]]:
    """Every installed queue table."""
    return [
        model for model in apps.get_models() if issubclass(model, Job) and not model._meta.proxy
    ]


def all_served(using: str | None = None) -> tuple[Served, ...]:
    """Every installed queue table where it is written, or all that one database may have."""
    if using is None:
        return tuple(
            Served(model, alias) for model in queue_tables() for alias in model.written_databases()
        )
    return tuple(
        Served(model, using) for model in queue_tables() if router.allow_migrate_model(using, model)
    )


def parse_served(
    names: list[str],
    using: str | None = None,
    without: list[str] | None = None,
    order: QueueOrder | None = None,
) -> tuple[Served, ...]:
    """Read ``TABLE[@DATABASE][:QUEUE]`` arguments, none = all, ``without`` those that are left to
    others, on every database if none is named; only the queues of ``order``, where there is one.

    ``UnknownTable`` names the known ones.
    """
    served = tuple(one for name in names for one in _parse(name, using)) or all_served(using)
    # Each with whether its database was named.
    others = [
        (other, "@" in name.partition(":")[0])
        for name in without or ()
        for other in _parse_left_out(name, using, served)
    ]
    among = order.patterns if order else ()
    found = []
    for one in served:
        there = [other for other, is_exact in others if other.using == one.using or not is_exact]
        queues = [other.queue for other in there if other.queue and other.model is one.model]
        found.append(replace(one, left_out=frozenset(queues), among=among))
        _refuse_none(found[-1])
    return tuple(found)


def parse_one(name: str, using: str | None = None) -> Served:
    """Read a ``TABLE[@DATABASE]``; ``UnknownTable`` also where its database has to be named."""
    found = _parse(name, using)
    _refuse_queues(name, found)
    if len(found) > 1:
        places = ", ".join(f"{one.label}@{one.using}" for one in found)
        raise UnknownTable(f"{name} is on several databases: name one of {places}")
    return found[0]


def parse_tables(names: list[str], using: str | None = None) -> tuple[Served, ...]:
    """The same of several, none = all, on every database if none is named."""
    for name in names:
        _refuse_queues(name, _parse(name, using))
    return parse_served(names, using)


def _refuse_queues(name: str, found: list[Served]) -> None:
    if found[0].queue is not None:
        place = name.partition(":")[0]
        raise UnknownTable(f"{shown(name)} names a queue: name the table alone, {place}")


def _parse_left_out(name: str, using: str | None, served: tuple[Served, ...]) -> list[Served]:
    place, _, queue = name.partition(":")
    label, at, alias = place.partition("@")
    if label == ANY_TABLE:
        tables = {one.label for one in served}
        texts = [f"{table}{at}{alias}:{queue}" for table in sorted(tables)]
    else:
        texts = [name]
    # What it leaves out on another database than that of ``--database`` is not served here anyway.
    found = [one for text in texts for one in _parse(text, None if alias else using)]
    if not queue:
        raise UnknownTable(f"{place} names no queue: leave out TABLE:QUEUE")
    return found


def _refuse_none(one: Served) -> None:
    """Where a queue is named that is not among those in order, there would be nothing to serve."""
    queue = None if one.queue is None or is_pattern(one.queue) else one.queue
    if queue and one.among and not any(matches(name, queue) for name in one.among):
        raise UnknownTable(f"{one} is not among the queues {', '.join(one.among)}")


def _parse(name: str, using: str | None) -> list[Served]:
    """Where no database is named, on each on which jobs come in."""
    place, has_queue, queue = name.partition(":")
    if has_queue:
        try:
            check_name(queue, "queue")
        except ValidationError as error:
            raise UnknownTable(f"{shown(name)}: {error.messages[0]}") from None
    label, _, alias = place.partition("@")
    if alias and alias not in connections:
        aliases = ", ".join(connections)
        raise UnknownTable(f"{shown(alias)} is no database alias; known: {aliases}")
    if alias and using and alias != using:
        raise UnknownTable(f"{shown(name)} is not on the database of --database, {using}")
    tables = queue_tables()
    labels = {one._meta.label_lower: one._meta.label for one in tables}
    labels |= {one._meta.model_name or "": one._meta.label for one in tables}
    wanted = label.lower()
    found = [one for one in tables if wanted in {one._meta.label_lower, one._meta.model_name}]
    if len(found) == 1:
        named = alias or using
        places = [named] if named else found[0].written_databases()
        return [Served(found[0], place, queue or None) for place in places]
    problem = "names several queue tables"
    if not found:
        near = nearest(wanted, set(labels))
        problem = "is no queue table" + (f" (did you mean {labels[near]}?)" if near else "")
    known = ", ".join(sorted(set(labels.values()))) or "none"
    raise UnknownTable(f"{label!r} {problem}; installed are: {known}")
