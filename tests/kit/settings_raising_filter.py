"""A project whose log filter raises at every line of its queue."""

import logging

from testproject.settings import *  # noqa: F403


def refuse(record: logging.LogRecord) -> bool:
    raise LookupError("a filter that does not work")


LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"refuse": {"()": lambda: refuse}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "filters": ["refuse"]}},
    "loggers": {"django_dbqueue": {"handlers": ["stderr"], "level": "INFO"}},
}
