"""The tables of other backends, as their newest releases have them; their apps may be gone."""

from typing import Any

from django.apps.registry import Apps
from django.db import connections, models
from django.utils.translation import gettext as _


class MissingTable(ValueError):
    """A database lacks a table, or a column of it."""


def table(name: str, /, **fields: Any) -> Any:
    """An unmanaged model that the project's registry does not know."""
    options = {"apps": Apps(), "app_label": "dbqueue_imports", "db_table": name, "managed": False}
    bases = (models.Model,)
    body = {"__module__": __name__, "Meta": type("Meta", (), options), **fields}
    return type("".join(map(str.title, name.split("_"))), bases, body)


def _of_job(name: str) -> Any:
    return table(name, job_id=models.UUIDField())


# JSON is read as text, so that a row that holds none is one row's problem.
DJANGO_TASKS_DB = table(
    "django_tasks_database_dbtaskresult",
    id=models.UUIDField(primary_key=True),
    status=models.CharField(),
    task_path=models.TextField(),
    payload=models.TextField(db_column="args_kwargs"),
    queue_name=models.CharField(),
    priority=models.IntegerField(),
    backend_name=models.CharField(),
    run_after=models.DateTimeField(null=True),
    enqueued_at=models.DateTimeField(),
)
DJ_QUEUE_JOBS = table(
    "dj_queue_jobs",
    id=models.UUIDField(primary_key=True),
    task_path=models.TextField(),
    payload=models.TextField(),
    queue_name=models.CharField(),
    priority=models.SmallIntegerField(),
    backend_name=models.CharField(db_column="backend_alias"),
    run_after=models.DateTimeField(db_column="scheduled_at", null=True),
    concurrency_key=models.CharField(null=True),
    finished_at=models.DateTimeField(null=True),
    enqueued_at=models.DateTimeField(db_column="created_at"),
)
DJ_QUEUE_READY = _of_job("dj_queue_ready_executions")
DJ_QUEUE_SCHEDULED = _of_job("dj_queue_scheduled_executions")
DJ_QUEUE_CLAIMED = _of_job("dj_queue_claimed_executions")
DJ_QUEUE_BLOCKED = _of_job("dj_queue_blocked_executions")
DJ_QUEUE_FAILED = _of_job("dj_queue_failed_executions")
DJ_QUEUE_TICKS = table(
    "dj_queue_recurring_executions",
    job_id=models.UUIDField(null=True),
    intended_job_id=models.UUIDField(null=True),
)
DJ_QUEUE_RECURRING = table("dj_queue_recurring_tasks", key=models.CharField())
DJ_QUEUE_PAUSES = table("dj_queue_pauses", queue_name=models.CharField())


def check_tables(tables: list[Any], using: str, release: str) -> None:
    """``MissingTable`` where one of them, or a column, is not in this database."""
    connection = connections[using]
    with connection.cursor() as cursor:
        present = set(connection.introspection.table_names(cursor))
        for one in tables:
            name = one._meta.db_table
            if name not in present:
                text = _(
                    "database %(database)s has no table %(table)s; --database names another alias"
                )
                raise MissingTable(text % {"database": repr(using), "table": name})
            found = connection.introspection.get_table_description(cursor, name)
            wanted = {field.column for field in one._meta.concrete_fields}
            if missing := sorted(wanted - {column.name for column in found}):
                text = _("%(table)s has no column %(column)s: migrate it to %(release)s first")
                names = {"table": name, "column": ", ".join(missing), "release": release}
                raise MissingTable(text % names)
