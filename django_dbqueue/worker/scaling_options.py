"""Within which bounds a worker chooses its number of children, and shares queues out among them."""

from dataclasses import dataclass
from typing import Any

from ..conf import conf

BALANCES = ("off", "simple", "auto")
WEIGHTS = ("time", "size")
SETTINGS = ("target_wait", "balance", "balance_by", "balance_cooldown", "balance_max_shift")


@dataclass(frozen=True)
class ScalingOptions:
    """Times in seconds; ``most`` None = the number of processes is fixed."""

    most: int | None = None
    # That the oldest ready job may wait, and that it may take to run all that is ready.
    target_wait: float = 5
    balance: str = "off"
    balance_by: str = "time"
    balance_cooldown: float = 3
    balance_max_shift: int = 1

    def __post_init__(self) -> None:
        for name, known in (("balance", BALANCES), ("balance_by", WEIGHTS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be {' or '.join(known)}, not {getattr(self, name)}")
        for name in ("target_wait", "balance_cooldown", "balance_max_shift"):
            conf.judge(name.upper(), getattr(self, name), name)


def scaling_options(most: int, given: dict[str, Any]) -> ScalingOptions:
    """As the command says, or else the settings."""
    chosen = {
        name: conf.judged(name.upper()) if given.get(name) is None else given[name]
        for name in SETTINGS
    }
    return ScalingOptions(most=most, **chosen)
