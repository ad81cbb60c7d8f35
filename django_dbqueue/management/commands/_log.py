"""Where the commands' log goes when the project says nothing of it."""

import logging
import sys

LEVELS = {0: logging.ERROR, 1: logging.INFO, 2: logging.INFO, 3: logging.DEBUG}


def log_to_stderr(verbosity: int) -> None:
    """Show the queue's log on stderr, unless the project's LOGGING has a handler for it."""
    logger = logging.getLogger("django_dbqueue")
    if logger.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(LEVELS[verbosity])
    logger.propagate = False
