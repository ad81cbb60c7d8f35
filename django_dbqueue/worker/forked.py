"""A forked process, from its name to its end."""

import logging
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

# What a supervisor forks is called so.
AGENT, CHILD, PROBE = "dbqueue-agent", "dbqueue-child", "dbqueue-probe"


def leave(name: str, body: Callable[[], int]) -> NoReturn:
    """Run a forked process's body and end the process, whatever happens in it; ``name``: in ps and
    top, at most 15 bytes."""
    code = 1
    try:
        with suppress(OSError):
            Path("/proc/self/comm").write_text(name)
        code = body()
    finally:
        # A handler of the project's, or a closed stderr, must not make two supervisors of one.
        try:
            if sys.exc_info()[0] is not None:
                traceback.print_exc()
            sys.stdout.flush()
            logging.shutdown()
        finally:
            os._exit(code)
