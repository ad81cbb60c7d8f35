"""The end of a forked process."""

import logging
import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn


def leave(body: Callable[[], int]) -> NoReturn:
    """Run a forked process's body and end the process, whatever happens in it."""
    code = 1
    try:
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
