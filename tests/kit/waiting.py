"""Waiting for what other processes do: polling with a deadline."""

import time
from collections.abc import Callable
from typing import Any


def wait_until(condition: Callable[[], Any], seconds: float = 60, every: float = 0.02) -> Any:
    """Poll a condition until it holds; fail loudly at the deadline."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {condition}")
        time.sleep(every)
    return result
