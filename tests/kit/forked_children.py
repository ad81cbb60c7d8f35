"""Children of this very process, without a worker around them."""

import os
import signal
from collections.abc import Callable
from typing import Any

from django_dbqueue.worker.child import ExitedChild
from django_dbqueue.worker.children import Children
from django_dbqueue.worker.shared_memory import ExitStatus, Role, SharedMemory
from tests.kit.waiting import wait_until


def live(
    stacks: Any, prefix: str, shared: SharedMemory, share: Any, control: int, role: Role
) -> int:
    """What a child does that only waits until it is asked to leave."""
    os.read(control, 1)
    shared.exit_status = ExitStatus.ASKED
    return 0


def fill(children: Children) -> float:
    return children.fill(lambda shared: None)


def exited_children(children: Children, count: int) -> list[ExitedChild]:
    """The next so many ends."""
    found: list[ExitedChild] = []

    def have_ended() -> bool:
        found.extend(children.exited_children())
        return len(found) >= count

    wait_until(have_ended)
    return found


def kill(children: Children) -> None:
    """From outside."""
    for pid in children.living:
        os.kill(pid, signal.SIGKILL)


def end(children: Children) -> None:
    kill(children)
    exited_children(children, len(children.living))


class RefusedOnce:
    """``os.fork`` that has no process to give at first."""

    def __init__(self, really: Callable[[], int]) -> None:
        self.really = really
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        if self.calls == 1:
            raise BlockingIOError("no process for now")
        return self.really()
