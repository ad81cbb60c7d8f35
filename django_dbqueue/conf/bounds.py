"""What the value of a setting may be, beyond its type; an error names the limit."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self

from ..exceptions import Told, gettext_noop, shown

PROCESSES_MAX = 1000  # a slip of the finger shall not fork until the host stands still
SECONDS_MAX = 10 * 365 * 86400  # what any database can add to its clock
BIGINT_MAX = 2**63 - 1
PORT_MAX = 65_535


class Bound(Protocol):
    """What is allowed, as text, and a check that raises ``ValueError``."""

    def check(self, value: Any) -> None: ...


class Range(NamedTuple):
    """Numbers, both ends included."""

    least: float
    most: float
    unit: str = ""

    def check(self, value: Any) -> None:
        # Not the other way round: nothing holds of a NaN.
        if not self.least <= value <= self.most:
            raise ValueError(f"must be {self}, not {shown(value)}")

    def __str__(self) -> str:
        ends = [str(one) if isinstance(one, int) else f"{one:g}" for one in self[:2]]
        return f"at least {ends[0]} and at most {ends[1]} {self.unit}".rstrip()


class Parsed(NamedTuple):
    """What a function reads, which raises ``ValueError`` of anything else."""

    read: Callable[[Any], object]

    def check(self, value: Any) -> None:
        try:
            self.read(value)
        except ValueError as error:
            raise ValueError(f"makes no sense: {error}") from None

    def __str__(self) -> str:
        return f"what {self.read.__name__} reads"


class NotEmpty(NamedTuple):
    """Text with more than spaces."""

    def check(self, value: str) -> None:
        if not value.strip():
            raise ValueError(f"must not be empty, as {shown(value)} is")

    def __str__(self) -> str:
        return "text that is not empty"


class Unlimited(NamedTuple):
    """Any value of the setting's type, for this reason."""

    why: str

    def check(self, value: Any) -> None:
        pass

    def __str__(self) -> str:
        return self.why


def seconds(least: float = 0) -> Range:
    return Range(least, SECONDS_MAX, "seconds")


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
            text = gettext_noop("must be a number, or a range such as 1-8, not %(given)s")
            raise Told(text, given=shown(value))
        least, most = numbers[0], numbers[-1]
        if not 1 <= least <= most <= PROCESSES_MAX:
            text = gettext_noop(
                "must be a number from 1 to %(most)s, or a range such as 1-8, the lower number "
                "first, not %(given)s"
            )
            raise Told(text, most=PROCESSES_MAX, given=shown(value))
        return cls(least, most)

    def __str__(self) -> str:
        return str(self.least) if self.least == self.most else f"{self.least}-{self.most}"
