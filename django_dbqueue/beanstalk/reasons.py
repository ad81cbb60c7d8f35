"""What only this app knows of why a job is not running."""

from typing import Any

from django.utils.translation import gettext as _

from ..lifecycle.table import Table
from .handlers import tubes_with_handlers
from .rows import tubes_of


def reasons(table: Table, key: Any) -> list[str]:
    """For ``diagnose.REASONS``."""
    if tubes_with_handlers().intersection(tubes_of(table, [key]).values()):
        return []
    return [
        _(
            "No function works off its tube here: clients of runbeanstalkd reserve its jobs, and "
            "workers leave them alone."
        )
    ]
