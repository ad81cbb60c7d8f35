"""The settings: one dict ``DBQUEUE``, environment variables ``DBQUEUE_*``, and these defaults.

Precedence: command line option > environment > a worker's file > ``settings.DBQUEUE`` > default.
"""

import json
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from .exceptions import shown

P = ParamSpec("P")
T = TypeVar("T")

# By the type of a default, which ones do for it.
KINDS: dict[type, tuple[type, ...]] = {
    bool: (bool,),
    float: (int, float),
    tuple: (list, tuple),
    type(None): (str, type(None)),
}


PROCESSES_MAX = 1000  # a slip of the finger shall not fork until the host stands still
YES = {"1", "true", "yes", "on"}
NO = {"0", "false", "no", "off", ""}


class ProcessRange(NamedTuple):
    """From ``least`` to ``most``; a fixed number where they are equal."""

    least: int
    most: int

    @classmethod
    def read(cls, value: object) -> Self:
        """A number, or text such as ``"4"`` or ``"1-8"``; ``ValueError`` names the limit."""
        parts = [value] if type(value) is int else str(value).split("-")
        try:
            numbers = [int(part) for part in parts]
        except ValueError:
            numbers = []
        if len(numbers) not in {1, 2}:
            raise ValueError(f"must be a number, or a range such as 1-8, not {shown(value)}")
        least, most = numbers[0], numbers[-1]
        if not 1 <= least <= most <= PROCESSES_MAX:
            raise ValueError(
                f"must be a number from 1 to {PROCESSES_MAX}, or a range such as 1-8, the lower "
                f"number first, not {shown(value)}"
            )
        return cls(least, most)

    def __str__(self) -> str:
        return str(self.least) if self.least == self.most else f"{self.least}-{self.most}"


class Section(Mapping[str, Any]):
    """The settings of one app: a prefix and a table of defaults, read again at every access.

    A value from the environment is converted to the type of its default; one that cannot be
    converted, or is of another type in the settings, raises ``ImproperlyConfigured`` naming it.
    One that has ``choices`` is one of these; one that has a reader is what that makes of it.
    """

    all: list["Section"] = []

    def __init__(
        self,
        prefix: str,
        defaults: dict[str, Any],
        may_be_none: Collection[str] = (),
        choices: Mapping[str, Sequence[bool | str]] | None = None,
        readers: Mapping[str, Callable[[object], Any]] | None = None,
    ) -> None:
        self.prefix = prefix
        self.defaults = defaults
        self.may_be_none = may_be_none
        self.choices = choices or {}
        self.readers = readers or {}
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
            return _convert(key, from_environment, default)
        value = _settings().get(key, default)
        if value is None and name in self.may_be_none:
            return None
        return _checked(key, value, default)

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


def _convert(key: str, text: str, default: Any) -> Any:
    if isinstance(default, bool):
        return _read_bool(f"DBQUEUE_{key}", text)
    if default is None or isinstance(default, str):
        return text
    if isinstance(default, tuple):
        return tuple(filter(None, (word.strip() for word in text.split(","))))
    if isinstance(default, dict):
        return _read_json(f"DBQUEUE_{key}", text)
    try:
        number = type(default)(text)
    except ValueError:
        kind = type(default).__name__
        raise ImproperlyConfigured(f"DBQUEUE_{key} must be of type {kind}, not {text!r}") from None
    return _finite(f"DBQUEUE_{key}", number)


def _read_bool(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in YES | NO:
        raise ImproperlyConfigured(f"{name} must be true or false, not {shown(text)}")
    return word in YES


def _read_json(name: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ImproperlyConfigured(f"{name} must be an object in JSON, not {shown(text)}")
    return value


def _settings() -> Mapping[str, Any]:
    given = getattr(settings, "DBQUEUE", {})
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(f"DBQUEUE must be a dict, not {shown(given)}")
    return given


def _checked(key: str, value: Any, default: Any) -> Any:
    """A value of the settings; a whole number does for any number, text for what may be None."""
    name = f"DBQUEUE[{key!r}]"
    if type(default) is int and isinstance(value, float) and value.is_integer():
        return int(value)
    right = KINDS.get(type(default), (type(default),))
    if not isinstance(value, right) or (isinstance(value, bool) and bool not in right):
        kind = " or ".join(one.__name__ for one in right)
        raise ImproperlyConfigured(f"{name} must be of type {kind}, not {shown(value)}")
    return _finite(name, value)


def _finite(name: str, value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ImproperlyConfigured(f"{name} must be a finite number, not {value}")
    return value


def wrong_values() -> list[str]:
    """What is wrong with the values of the settings, one sentence each."""
    found: set[str] = set()
    for section in Section.all:
        for name in section:
            try:
                section[name]
            except ImproperlyConfigured as error:
                found.add(str(error))
    return sorted(found)


def unknown_names() -> dict[str, str]:
    """The keys of ``settings.DBQUEUE`` that mean nothing, and the nearest known name or ''."""
    known = {section.prefix + name for section in Section.all for name in section}
    given = {str(name) for name in _settings()}
    return {name: nearest(name, known) for name in sorted(given - known)}


def nearest(name: str, known: set[str]) -> str:
    """The known name that looks most like this one, or ''."""
    return next(iter(get_close_matches(name, sorted(known), n=1)), "")


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
        "NOTIFY": False,  # PostgreSQL tells idle workers of new jobs
        "SLEEP": 0.5,  # seconds; the longest pause of an idle queue
        "SHUTDOWN_TIMEOUT": 30.0,  # seconds
        "QUEUES": {},  # by "app.table" or "app.table:queue", options of Policy for these queues
        "PROBE_PORT": 0,  # 0 = none
        "PROBE_HOST": "127.0.0.1",
        # alive or gone
        "BEAT_INTERVAL": 2.0,  # seconds
        "WORKER_TIMEOUT": 10.0,  # seconds without a beat
        # for people
        "LATE_AFTER": 300.0,  # seconds that the oldest ready job may wait without a banner
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
    if not 0 <= version < 2**63:
        raise ImproperlyConfigured(
            f"CODE_VERSION must be at least 0 and less than 2**63, not {shown(version)}"
        )
    return version
