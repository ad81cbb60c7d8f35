"""Erasing the message of a finished mail, its subject as well; that it was sent, when and to whom,
stays known."""

from typing import TYPE_CHECKING, Any

from django.db import router

from ..states import Status

if TYPE_CHECKING:
    from .models.email import EmailFields

FINISHED = (Status.DONE, Status.BURIED)


def forget(email: "EmailFields") -> bool:
    """Erase its message for good; False where it still waits, is claimed, or was erased before."""
    from .models import Email  # noqa: PLC0415

    database = router.db_for_write(type(email), instance=email)
    manager: Any = type(email)._default_manager
    rows = manager.using(database).filter(pk=email.pk, is_erased=False)
    if isinstance(email, Email):
        rows = rows.filter(status__in=FINISHED)
    return bool(rows.update(message="", subject="", is_erased=True))
