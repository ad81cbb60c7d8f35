"""What a job's ``run()`` gave back: nothing, or a coroutine that has to be run."""

import inspect
from collections.abc import Awaitable
from typing import Any

from asgiref.sync import async_to_sync


def settle(answer: Any) -> None:
    """Run a coroutine on this thread; ``TypeError`` for what yields: nothing of it has run."""
    if answer is None:
        return
    if inspect.isawaitable(answer):
        async_to_sync(_wait_for)(answer)
    elif inspect.isgenerator(answer) or inspect.isasyncgen(answer):
        raise TypeError("run() yields: nothing in it was run; it has to be a plain method")


async def _wait_for(answer: Awaitable[object]) -> None:
    await answer
