"""Where the commands' log goes when the project says nothing of it."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

LEVELS = {0: logging.ERROR, 1: logging.INFO, 2: logging.DEBUG, 3: logging.DEBUG}
FIELDS = ("event", "worker", "worker_name", "table", "queue", "id", "attempt", "owner", "seconds")

# An error's own line breaks would tear the line, its control characters speak to the terminal.
# Those of the second line change the direction of what follows.
CONTROLS = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029]
CONTROLS += [0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
VISIBLE = {number: repr(chr(number))[1:-1] for number in CONTROLS}


def printable(text: str) -> str:
    """Lines as a terminal may get them: what is in them does nothing to it."""
    return "\n".join(line.translate(VISIBLE) for line in text.split("\n"))


def log_to_stderr(verbosity: int, *, as_json: bool = False) -> None:
    """Show the queue's log on stderr, unless the project's LOGGING has a handler for it."""
    logger = logging.getLogger("django_dbqueue")
    if logger.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONFormatter() if as_json else TextFormatter())
    logger.addHandler(handler)
    logger.setLevel(LEVELS[verbosity])
    logger.propagate = False


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """What the record says in addition to its message."""
    known = vars(record)
    return {name: known[name] for name in FIELDS if known.get(name) is not None}


class TextFormatter(logging.Formatter):
    """Time, level, message, then ``name=value`` of each field."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in fields_of(record).items())
        return (super().formatMessage(record) + fields).translate(VISIBLE)

    def formatException(self, ei: Any) -> str:
        return printable(super().formatException(ei))


class JSONFormatter(logging.Formatter):
    """One JSON object a line; times in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **fields_of(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
