"""What is wrong with an entry of ``settings.TASKS``."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error

from ..conf import nearest

OPTIONS = {"database", "enqueue_on_commit"}


def check_backend(alias: str, options: Mapping[str, Any]) -> Iterator[CheckMessage]:
    where = f"TASKS[{alias!r}]"
    if not apps.is_installed("django_dbqueue.tasks"):
        yield Error(
            f"{where} needs the app django_dbqueue.tasks.",
            hint="Add 'django_dbqueue.tasks' to INSTALLED_APPS, and migrate.",
            id="dbqueue_tasks.E001",
        )
    for name in sorted(options.keys() - OPTIONS):
        guess = nearest(str(name), OPTIONS)
        hint = f"Did you mean {guess!r}?" if guess else f"Known are {', '.join(sorted(OPTIONS))}."
        yield Error(f"{where}: OPTIONS has no {name!r}.", hint=hint, id="dbqueue_tasks.E002")
    database = options.get("database")
    if database is not None and database not in settings.DATABASES:
        yield Error(
            f"{where}: OPTIONS['database'] is {database!r}, which is none of DATABASES.",
            id="dbqueue_tasks.E003",
        )
