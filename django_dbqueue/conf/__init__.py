"""The settings: one dict ``DBQUEUE``, environment variables ``DBQUEUE_*``, and these defaults.

Precedence: command line option > environment > a worker's file > ``settings.DBQUEUE`` > default.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from ..exceptions import shown
from .bounds import (
    BIGINT_MAX,
    PORT_MAX,
    PROCESSES_MAX,
    Bound,
    NotEmpty,
    Parsed,
    ProcessRange,
    Range,
    Unlimited,
    seconds,
)
from .queue_order import parse_order
from .values import NO, YES, from_text, of_type

__all__ = ["Section", "conf"]

P = ParamSpec("P")
T = TypeVar("T")


class Section(Mapping[str, Any]):
    """The settings of one app: a prefix and a table of defaults, read again at every access.

    A value from the environment is converted to the type of its default; one that cannot be
    converted, or is of another type in the settings, raises ``ImproperlyConfigured`` naming it.
    One that has ``choices`` is one of these; one that has a reader is what that makes of it. Each
    other one has its bounds, by which checks and commands judge what it is.
    """

    all: list["Section"] = []

    def __init__(
        self,
        prefix: str,
        defaults: dict[str, Any],
        may_be_none: Collection[str] = (),
        choices: Mapping[str, Sequence[bool | str]] | None = None,
        readers: Mapping[str, Callable[[object], Any]] | None = None,
        bounds: Mapping[str, Bound] | None = None,
    ) -> None:
        self.prefix = prefix
        self.defaults = defaults
        self.may_be_none = may_be_none
        self.choices = choices or {}
        self.readers = readers or {}
        self.bounds = bounds or {}
        Section.all.append(self)

    def __getitem__(self, name: str) -> Any:
        default = self.defaults[name]
        key = self.prefix + name
        from_environment = os.environ.get(f"DBQUEUE_{key}")
        if name in self.choices:
            return self._chosen(name, from_environment)
        if name in self.readers:
            return self._read(name, from_environment)
        if from_environment is not None:
            return from_text(key, from_environment, default)
        value = _settings().get(key, default)
        if value is None and name in self.may_be_none:
            return None
        return of_type(key, value, default)

    def _chosen(self, name: str, from_environment: str | None) -> bool | str:
        key, choices = self.prefix + name, self.choices[name]
        if from_environment is None:
            shown_name, value = f"DBQUEUE[{key!r}]", _settings().get(key, self.defaults[name])
        else:
            shown_name, word = f"DBQUEUE_{key}", from_environment.strip().lower()
            value = word in YES if word in (YES | NO) - {*choices} else word
        # 1 would be in them, too: it equals True.
        if not isinstance(value, bool | str) or value not in choices:
            words = f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
            raise ImproperlyConfigured(f"{shown_name} must be {words}, not {shown(value)}")
        return value

    def judged(self, name: str) -> Any:
        """Its value; ``ImproperlyConfigured`` also where that is beyond its bounds."""
        value, key = self[name], self.prefix + name
        of_environment = self.source(name) == "environment"
        shown_name = f"DBQUEUE_{key}" if of_environment else f"DBQUEUE[{key!r}]"
        try:
            self.judge(name, value, shown_name)
        except ValueError as error:
            raise ImproperlyConfigured(str(error)) from None
        return value

    def judge(self, name: str, value: Any, shown_name: str) -> None:
        """``ValueError`` where a value, such as that of an option, is beyond a setting's bounds."""
        bound = self.bounds.get(name)
        if bound is None or (value is None and name in self.may_be_none):
            return
        try:
            bound.check(value)
        except ValueError as error:
            raise ValueError(f"{shown_name} {error}") from None

    def source(self, name: str) -> str:
        """Where a value comes from: environment, setting or default."""
        key = self.prefix + name
        if f"DBQUEUE_{key}" in os.environ:
            return "environment"
        return "setting" if key in _settings() else "default"

    def _read(self, name: str, from_environment: str | None) -> Any:
        key = self.prefix + name
        given = _settings().get(key, self.defaults[name])
        value = given if from_environment is None else from_environment
        shown_name = f"DBQUEUE[{key!r}]" if from_environment is None else f"DBQUEUE_{key}"
        try:
            return self.readers[name](value)
        except ValueError as error:
            raise ImproperlyConfigured(f"{shown_name} {error}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.defaults)

    def __len__(self) -> int:
        return len(self.defaults)


def _settings() -> Mapping[str, Any]:
    given = getattr(settings, "DBQUEUE", {})
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(f"DBQUEUE must be a dict, not {shown(given)}")
    return given


def wrong_values() -> list[str]:
    """What is wrong with the values of the settings, one sentence each."""
    found: set[str] = set()
    for section in Section.all:
        for name in section:
            try:
                section.judged(name)
            except ImproperlyConfigured as error:
                found.add(str(error))
    if not found and (problem := contradiction(conf["BEAT_INTERVAL"], conf["WORKER_TIMEOUT"])):
        found.add(problem)
    return sorted(found)


def contradiction(beat: float, timeout: float) -> str:
    """What is wrong with the times of beats next to each other, or ''."""
    # Else one late beat would make a worker look dead.
    if timeout > 2 * beat:
        return ""
    return f"WORKER_TIMEOUT ({timeout:g} s) must be more than twice BEAT_INTERVAL ({beat:g} s)"


def unknown_names() -> dict[str, str]:
    """The keys of ``settings.DBQUEUE`` that mean nothing, and the nearest known name or ''."""
    known = {section.prefix + name for section in Section.all for name in section}
    given = {str(name) for name in _settings()}
    return {name: nearest(name, known) for name in sorted(given - known)}


def misspelt_variables() -> dict[str, str]:
    """Environment variables that are no setting, and the settings' that they look like.

    Only such: a project may have variables of its own that begin with ``DBQUEUE_``.
    """
    prefix_of = {
        f"DBQUEUE_{one.prefix}{name}": f"DBQUEUE_{one.prefix}"
        for one in Section.all
        for name in one
    }
    found: dict[str, str] = {}
    given = {name for name in os.environ if name.startswith("DBQUEUE_")}
    for name in sorted(given - prefix_of.keys()):
        near = nearest(name, prefix_of, 0.9)
        prefix = prefix_of.get(near, "")  # it makes all names with it alike
        if near and nearest(name.removeprefix(prefix), [near.removeprefix(prefix)], 0.75):
            found[name] = near
    return found


def nearest(name: str, known: Collection[str], likeness: float = 0.6) -> str:
    """The known name that looks most like this one, or ''."""
    return next(iter(get_close_matches(name, sorted(known), n=1, cutoff=likeness)), "")


conf = Section(
    "",
    {
        # runworker
        "QUEUE_ORDER": (),
        "PROCESSES": 1,  # or a range, "1-8"
        "TARGET_WAIT": 5.0,  # seconds that a ready job may wait before a worker grows
        "BALANCE": "off",
        "BALANCE_BY": "time",
        "BALANCE_COOLDOWN": 3.0,  # seconds between two decisions
        "BALANCE_MAX_SHIFT": 1,  # processes at once
        "THREADS": 1,
        "COROUTINES": 0,
        "BATCH_SIZE": 10,
        "NOTIFY": True,  # PostgreSQL tells idle workers of new jobs
        "SLEEP": 0.5,  # seconds; the longest pause of an idle queue
        "SHUTDOWN_TIMEOUT": 30.0,  # seconds
        "QUEUES": {},  # by "app.table" or "app.table:queue", options of Policy for these queues
        "PROBE_PORT": 0,  # 0 = none
        "PROBE_HOST": "127.0.0.1",
        # alive or gone
        "BEAT_INTERVAL": 2.0,  # seconds
        "WORKER_TIMEOUT": 10.0,  # seconds without a beat
        # for people
        "LATE_AFTER": 300.0,  # seconds that a ready job may wait where its queue says nothing
        "OPERATOR": "",  # the user who gives commands, where --by names nobody
        "METRICS_TOKEN": None,  # for clients that scrape the view of metrics
        "TRACING": False,  # OpenTelemetry's spans
        # the reaper's turn
        "REAP_INTERVAL": 1.0,  # seconds
        # which jobs this code may run, where they say what they need
        "CODE_VERSION": 0,
        # the web server brings a worker along
        "RUN_WITH_SERVER": False,
    },
    may_be_none=("METRICS_TOKEN",),
    # True means "one": in all on this host.
    choices={
        "RUN_WITH_SERVER": (False, True, "one", "each"),
        "BALANCE": ("off", "simple", "auto"),
        "BALANCE_BY": ("time", "size"),
        "TRACING": (False, True, "link"),
    },
    readers={"PROCESSES": ProcessRange.read},
    bounds={
        "QUEUE_ORDER": Parsed(parse_order),
        "TARGET_WAIT": seconds(0.01),
        "BALANCE_COOLDOWN": seconds(0.05),
        "BALANCE_MAX_SHIFT": Range(1, PROCESSES_MAX),
        "THREADS": Range(1, 1000),
        "COROUTINES": Range(0, 10_000),
        "BATCH_SIZE": Range(1, 100_000),
        "NOTIFY": Unlimited("true or false"),
        "SLEEP": seconds(),
        "SHUTDOWN_TIMEOUT": seconds(),
        "QUEUES": Unlimited("checks.queue_options judges each option"),
        "PROBE_PORT": Range(0, PORT_MAX),
        "PROBE_HOST": NotEmpty(),
        "BEAT_INTERVAL": seconds(0.01),
        "WORKER_TIMEOUT": seconds(0.02),
        "LATE_AFTER": seconds(),
        "METRICS_TOKEN": Unlimited("any text is a token"),
        "OPERATOR": Unlimited("who that is, is looked up where a command is given"),
        "REAP_INTERVAL": seconds(0.01),
        "CODE_VERSION": Range(0, BIGINT_MAX),
    },
)


def cached(size: int | None = None) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """``lru_cache`` of what follows from the settings; forgotten where a test overrides them."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        remembering = lru_cache(size)(function)

        def forget(setting: str, **_: Any) -> None:
            if setting == "DBQUEUE":
                remembering.cache_clear()

        setting_changed.connect(forget, weak=False)
        return remembering  # type: ignore[return-value]

    return decorate


def code_version() -> int:
    """The setting ``CODE_VERSION``. As the default of a column ``min_version``: jobs need the code
    that has enqueued them, or newer."""
    version: int = conf["CODE_VERSION"]
    if not 0 <= version <= BIGINT_MAX:
        conf.judged("CODE_VERSION")
    return version
