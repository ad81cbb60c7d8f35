"""Jobs whose foreign key names a row that is gone: another try would be in vain."""

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.db import router

from ..exceptions import Bury
from ..guard import capture


def explained(jobs: Sequence[Any], error: Exception | None) -> Exception | None:
    """The error of a job, or ``Bury`` where it comes from what its own foreign key has lost.

    A batch keeps its error: it speaks of no single job.
    """
    if not isinstance(error, ObjectDoesNotExist) or len(jobs) != 1:
        return error
    # What goes wrong here, as with a database that is away, says nothing of the row.
    with capture() as look:
        _look(jobs[0], error)
    return look.error if isinstance(look.error, Bury) else error


def _look(job: Any, error: ObjectDoesNotExist) -> None:
    for field in job._meta.fields:
        if field.is_relation and isinstance(error, field.remote_field.model.DoesNotExist):
            _check(job, field, error)


def _check(job: Any, field: Any, error: ObjectDoesNotExist) -> None:
    target = field.remote_field.model
    key = {theirs.attname: getattr(job, ours.attname) for ours, theirs in field.related_fields}
    # Not where it is read: a replica may not have heard of it yet.
    rows = target._base_manager.using(router.db_for_write(target, instance=job))
    if None not in key.values() and not rows.filter(**key).exists():
        values = ", ".join(map(str, key.values()))
        raise Bury(f"{target._meta.verbose_name} {values} does not exist any more") from error
