"""How many children a worker has: a number, or a range within which it decides."""

from typing import NamedTuple, Self

from .exceptions import shown

PROCESSES_MAX = 1000  # a slip of the finger shall not fork until the host stands still


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
                f"must be at least 1 and at most {PROCESSES_MAX}, and a range the lower number "
                f"first, not {shown(value)}"
            )
        return cls(least, most)

    def __str__(self) -> str:
        return str(self.least) if self.least == self.most else f"{self.least}-{self.most}"
