"""``runworker`` in the test's own process, and what it logged."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django_dbqueue.management.commands._log import JSONFormatter, TextFormatter
from django_dbqueue.testing import Clock, InlineWorker


class Log(logging.Handler):
    """Lines as ``runworker`` writes them to stderr."""

    def __init__(self, level: int = logging.INFO) -> None:
        super().__init__(level)
        self.setFormatter(TextFormatter())
        self.lines: list[str] = []
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))
        self.records.append(record)

    def told(self, event: str) -> list[dict[str, Any]]:
        """What ``--json`` would have told of events of this name."""
        lines = [json.loads(JSONFormatter().format(record)) for record in self.records]
        return [line for line in lines if line.get("event") == event]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def __contains__(self, text: str) -> bool:
        return text in str(self)


@contextmanager
def logged(level: int = logging.INFO) -> Iterator[Log]:
    """What our log says meanwhile."""
    logger, log = logging.getLogger("django_dbqueue"), Log(level)
    before = logger.level
    logger.addHandler(log)
    logger.setLevel(level)
    try:
        yield log
    finally:
        logger.removeHandler(log)
        logger.setLevel(before)


def work_off(*arguments: str) -> Log:
    """Run what is ready, as ``runworker --stop-when-empty`` does; what it logged."""
    with logged() as log, InlineWorker(*arguments) as worker:
        worker.run()
    return log


def drain(clock: Clock, *arguments: str) -> Log:
    """Run also what is delayed; the clock is moved to when it is due."""
    with logged() as log, InlineWorker(*arguments, clock=clock) as worker:
        worker.drain()
    return log
