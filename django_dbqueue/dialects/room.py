"""How many connections may be opened."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionRoom:
    """How many connections a server has, or lets an account have, and how many of them are open."""

    limit: int
    used: int
    setting: str  # that says so

    @property
    def free(self) -> int:
        return max(0, self.limit - self.used)
