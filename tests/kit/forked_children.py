"""Children of this very process, without a worker around them."""

import os
import signal
from typing import Any

from django_dbqueue.worker.children import Children, Death
from django_dbqueue.worker.shared_memory import Board, Farewell, Role
from tests.kit.waiting import wait_until


def live(stacks: Any, prefix: str, board: Board, share: Any, control: int, role: Role) -> int:
    """What a child does that only waits until it is asked to leave."""
    os.read(control, 1)
    board.farewell = Farewell.ASKED
    return 0


def fill(children: Children) -> float:
    return children.fill(lambda board: None)


def deaths(children: Children, count: int) -> list[Death]:
    """The next so many ends."""
    found: list[Death] = []

    def have_ended() -> bool:
        found.extend(children.deaths())
        return len(found) >= count

    wait_until(have_ended)
    return found


def kill(children: Children) -> None:
    """From outside."""
    for pid in children.living:
        os.kill(pid, signal.SIGKILL)


def end(children: Children) -> None:
    kill(children)
    deaths(children, len(children.living))
