"""Whom mail is for, so that it is found by an address; next to the queue table and its archive."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import Any

from django.db import models, transaction
from django.db.models.constants import OnConflict

from ...lifecycle.execute import changed_once, placeholders
from ...lifecycle.side_rows import Keyed, gone
from ...lifecycle.table import Table
from ..deliveries import address_of, pieces
from .suppression import normal

ROWS_MAX = 1000  # of one INSERT
KEYS_MAX = 500  # of one DELETE
DIGEST_BYTES = 8  # a number that every database has
# Most addresses: as they are compared once they are in small letters.
PLAIN = re.compile(r"[\w.+-]+@(?!xn--)[a-z0-9-]+(?:\.(?!xn--)[a-z0-9-]+)+", re.ASCII)
IN_BRACKETS = re.compile(r"<([^<>]*@[^<>]*)>\s*\Z")


def digest_of(recipient: str) -> int:
    """What stands for an address, with a name or without, in whatever spelling."""
    small = recipient.lower()
    whole = small if PLAIN.fullmatch(small) else _compared(recipient)
    digest = blake2b(whole.encode(errors="replace"), digest_size=DIGEST_BYTES).digest()
    return int.from_bytes(digest, signed=True)


@lru_cache(1024)
def _compared(recipient: str) -> str:
    bare = address_of(recipient)
    # A name with a comma in it that is not quoted.
    if found := IN_BRACKETS.search(bare):
        bare = found[1]
    return normal(bare)


class Recipient(models.Model):
    """One recipient of an email, which keeps its key in the archive. A digest and not the address:
    it is small, the same to every collation, and no second place from which to read addresses."""

    pk = models.CompositePrimaryKey("email", "address")
    email = models.BigIntegerField()
    address = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["address", "email"])]
        default_permissions = ()

    def __str__(self) -> str:
        return f"recipient of email {self.email}"


class RecipientRows:
    """The rows of emails, as the lifecycle writes and deletes them with these."""

    def write(self, table: Table, jobs: Keyed) -> None:
        rows = ((key, digest) for key, email in jobs for digest in digests(email))
        connection = table.connection
        before = connection.ops.insert_statement(on_conflict=OnConflict.IGNORE)
        after = connection.ops.on_conflict_suffix_sql([], OnConflict.IGNORE, [], [])
        while some := list(islice(rows, ROWS_MAX)):
            # Numbers, in the text: to fill them in would take longer than all the rest.
            values = ", ".join(f"({int(key)}, {digest})" for key, digest in some)
            sql = f"{before} {_name(table)} (email, address) VALUES {values} {after}"
            changed_once(connection, sql, [])

    def delete(self, table: Table, keys: Sequence[Any]) -> None:
        delete = table.dialect.delete_by_key(_name(table))
        for some in _chunks(keys):
            sql = f"{delete} WHERE email IN ({placeholders(some)})"
            changed_once(table.connection, sql, some)

    def renew(self, table: Table, email: Any) -> None:
        """Those of an email whose recipients were changed."""
        self.delete(table, [email.pk])
        self.write(table, [(email.pk, email)])


def digests(email: Any) -> Iterable[int]:
    """Of its recipients, each once."""
    given: Sequence[str] | None = getattr(email, "given_recipients", None)
    recipients = pieces(email.recipients or "") if given is None else given
    return dict.fromkeys(map(digest_of, recipients))


def delete_with_rows(table: Table, keys: Iterable[Any], delete: Callable[[], Any]) -> Any:
    """What Django's ``delete`` gives back, in one transaction with the rows of these emails."""
    with transaction.atomic(using=table.connection.alias):
        known = list(keys)
        deleted = delete()
        for some in _chunks(known):
            RecipientRows().delete(table, gone(table, some))
    return deleted


def _chunks(keys: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(keys), KEYS_MAX):
        yield keys[start : start + KEYS_MAX]


def _name(table: Table) -> str:
    return table.connection.ops.quote_name(Recipient._meta.db_table)
