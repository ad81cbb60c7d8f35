"""Changing a mail that nobody is sending, wherever it is by now."""

from typing import Any

from django.db import router

from ..lifecycle import hand
from ..lifecycle.table import Table, table_of
from .models import ArchivedEmail, Email

PLACES = (Email, ArchivedEmail)  # in this order: mail moves from the one to the other


def mail_table() -> Table:
    """The queue table of mail where it is written; its archive is in the same database."""
    return table_of(Email, router.db_for_write(Email))


def locked(table: Table, model: Any, key: Any) -> Any:
    """The row, which nobody else can change while the transaction lasts; None where it is gone."""
    rows = model._base_manager.using(table.connection.alias)
    return rows.select_for_update().filter(pk=key).first()


def amend(table: Table, row: Any, columns: dict[str, Any]) -> int:
    """Write columns of a row; 0 where a worker has it, or its state has moved on."""
    if isinstance(row, Email):
        return hand.amend(table, [(row.pk, row.status, row.owner)], columns).changed
    rows = ArchivedEmail.objects.using(table.connection.alias).filter(pk=row.pk)
    return rows.update(**columns)
