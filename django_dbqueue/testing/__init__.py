"""For tests of projects that have queue tables: a worker in the test's own process, and a clock.

The databases must be in autocommit: use ``TransactionTestCase``, or pytest-django's
``django_db(transaction=True)``.
"""

from .clock import Clock, virtual_clock
from .inline import InlineWorker

__all__ = ["Clock", "InlineWorker", "virtual_clock"]
