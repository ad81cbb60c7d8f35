"""What to do where a database could not be asked."""

from django.core.exceptions import ImproperlyConfigured
from django.db.utils import Error

from ..checks.schema import missing_migrations
from ..worker.served import all_served


def with_advice(problem: str, using: str | None) -> str:
    """Why a database could not be asked, and what to do about tables that are missing."""
    try:
        advice = missing_migrations(served.using for served in all_served(using))
    except (Error, ImproperlyConfigured, ImportError):
        advice = ""
    return "\n".join(filter(None, [problem, advice]))
