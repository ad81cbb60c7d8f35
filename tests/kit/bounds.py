"""Limits of queues, for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.test import override_settings


@contextmanager
def limits(table: str = "queueapp.note", **options: Any) -> Iterator[None]:
    """``table`` may name a queue, too."""
    given = getattr(settings, "DBQUEUE", {})
    with override_settings(DBQUEUE={**given, "QUEUES": {table: options}}):
        yield
