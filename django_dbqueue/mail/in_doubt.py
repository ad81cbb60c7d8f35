"""Emails that were sent as a whole and not answered, or whose worker died: a person knows more."""

from functools import partial

from ..lifecycle import operator
from ..lifecycle.execute import in_transaction
from ..lifecycle.table import Table
from ..states import Status
from .deliveries import OPEN, Deliveries, Delivery, Outcome
from .models import Email
from .models.queryset import kick
from .rows import amend, locked, mail_table


def mark_as_sent(email: Email, by: str = "") -> bool:
    """The recipients in doubt have got it, as ``by`` says; False where no recipient is in doubt.

    Recipients that were deferred are tried again, and nobody who was refused. Where there are
    neither, the email goes through a worker once more, which finishes it and sends nothing.
    """
    table = mail_table()
    answer = Delivery(Outcome.DELIVERED, text=f"by the word of {by}" if by else "by hand")

    def mark() -> bool:
        row = locked(table, Email, email.pk)
        deliveries = Deliveries(row.deliveries) if row is not None else Deliveries({})
        doubtful = deliveries.doubtful()
        if not doubtful or row.status != Status.BURIED:
            return False
        deliveries.by_address |= dict.fromkeys(doubtful, answer)
        deliveries.forget_doubts()
        if not amend(table, row, {"deliveries": deliveries.stored()}):
            return False
        if deliveries.having(OPEN) or not deliveries.having({Outcome.REFUSED}):
            finish(table, row)
        return True

    return in_transaction(table.connection, mark)


def finish(table: Table, row: Email) -> None:
    """Have a worker look at a buried email once more, which asks nobody who was refused."""
    if not row.is_erased:
        # At a first attempt it would.
        again = partial(operator.kick, attempts=1)
        kick(table, [(row.pk, row.status, row.owner)], again)
