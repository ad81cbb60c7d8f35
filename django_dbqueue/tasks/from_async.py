"""What async code asks of the database, in the transaction of the sync code that runs it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections


async def run(function: Callable[..., Any], *args: Any) -> Any:
    """Call it in the thread in which async code runs what is not.

    Where sync code has opened ``atomic()`` and then an event loop on its own thread, as
    ``asyncio.run()`` in a ``TestCase`` does, that would be another thread: it would not be in the
    transaction, and on SQLite it would wait for it. There the call is made on this thread, which
    has nothing else to do before the loop ends.
    """
    with _as_sync_code():
        known = connections.all(initialized_only=True)
        if any(one.in_atomic_block for one in known):
            return function(*args)
    return await sync_to_async(function, thread_sensitive=True)(*args)


@contextmanager
def _as_sync_code() -> Iterator[None]:
    """Django hides the connections of this thread's sync code while a loop is running."""
    loop = asyncio.get_running_loop()
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
