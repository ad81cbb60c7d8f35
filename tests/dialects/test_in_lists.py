"""Lists of hundreds of keys in tables where most rows are alike: no statement reads all of a table.

From 200 values on MariaDB and MySQL no longer look up each in the index: they go by the mean number
of rows of a value, which is large where almost all are null.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import Model, QuerySet
from django.utils import timezone

from django_dbqueue.admin import search
from django_dbqueue.lifecycle import archive
from django_dbqueue.lifecycle.operator import CHUNK
from django_dbqueue.lifecycle.sweep import FailedPruner
from django_dbqueue.lifecycle.table import Table
from django_dbqueue.mail.models import ArchivedEmail, Email, Suppression
from django_dbqueue.mail.privacy.erase import Eraser
from django_dbqueue.metrics import roll_up
from django_dbqueue.models import Minute, Receipt
from django_dbqueue.states import Status
from tests.kit.connections import truncate
from tests.kit.jobs import table
from tests.kit.mail import email_of, letter, setting
from tests.kit.query_plans import judged, update_statistics

BIG = {Email, ArchivedEmail}
SEED = 1000
NORMAL, FULL = 16_000, 1_000_000
ARCHIVED = 4  # times: of fewer rows PostgreSQL may rightly read all for 500 of them
DAY = 86400


@pytest.fixture(scope="module", params=[NORMAL, pytest.param(FULL, marks=pytest.mark.nightly)])
def skewed(request: Any, django_db_setup: None, django_db_blocker: Any) -> Any:
    """Mail of which 90 % is of one queue, half of it unsent, and next to none resends another."""
    with django_db_blocker.unblock():
        fill_mail(request.param)
        fill_small_tables()
        models = [Email, ArchivedEmail, Suppression, Minute, Receipt]
        tables = [name(model) for model in models]
        update_statistics(*tables)
        yield
        truncate(*tables)


def name(model: type[Model]) -> str:
    return model._meta.db_table


def run(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def columns(*without: str) -> str:
    names = [field.column for field in Email._meta.concrete_fields]
    return ", ".join(connection.ops.quote_name(one) for one in names if one not in without)


def fill_mail(count: int) -> None:
    Email.objects.bulk_create(email_of(letter(), queue="bulk") for _ in range(SEED))
    whole, ended = QuerySet(Email), timezone.now() - timedelta(days=9)
    keys = list(whole.values_list("pk", flat=True))
    ends = {"finished_at": ended, "retry_at": ended}
    whole.filter(pk__in=keys[::2]).update(status=Status.DONE, **ends)
    whole.filter(pk__in=keys[::10]).update(status=Status.BURIED, retry_at=None, queue="rest")
    while (now := whole.count()) < count:
        part = min(now, count - now)
        most = columns("id")
        run(f"INSERT INTO {name(Email)} ({most}) SELECT {most} FROM {name(Email)} LIMIT {part}")
    for copy in range(1, ARCHIVED + 1):
        other_id = f"id + {9_000_000 * copy} AS id"
        moved = f"SELECT {columns('id')}, {other_id} FROM {name(Email)} WHERE status = 2"
        into = f"INSERT INTO {name(ArchivedEmail)} ({columns()})"
        run(f"{into} SELECT {columns()} FROM ({moved}) moved")
    first = buried(1)[0]
    for waiting in Email.objects.bulk_create(email_of(letter()) for _ in range(3)):
        assert whole.filter(pk=waiting.pk).update(resend_of=first) == 1


def fill_small_tables() -> None:
    # MariaDB 11 rightly reads all of a table for an eighth of it.
    size = 16_000 if getattr(connection, "mysql_version", ()) >= (11,) else 4000
    Suppression.objects.bulk_create(Suppression(address=f"a{n}@x.example") for n in range(size))
    Minute.objects.bulk_create(
        Minute(job_table="t", queue=f"q{n % 32}", minute=n // 32) for n in range(2 * size)
    )
    place = f"{table(Email).job_table}@default"
    Receipt.objects.bulk_create(
        Receipt(digest=f"{n:064}", job_table=place, job_key=str(n)) for n in range(size)
    )
    Receipt.objects.update(written_at=timezone.now() - timedelta(days=9))


def buried(count: int = CHUNK) -> list[int]:
    """Keys from all over the table."""
    keys = list(QuerySet(Email).filter(status=Status.BURIED).values_list("pk", flat=True))
    return sorted(keys[:: max(1, len(keys) // count)][:count])


def failed(keys: list[int]) -> Any:
    return Email.objects.filter(pk__in=keys)


def search_for_an_id_that_many_have() -> int:
    QuerySet(Email).filter(pk__in=buried(900)).update(message_id="<one@x.example>")
    whole = Email.objects.order_by("-pk")
    keys, _common = search.keys_found(whole, ["message_id"], "<one@x.example>")
    return len(list(whole.filter(pk__in=sorted(keys))[:100]))


def pruned_after(seconds: int) -> Table:
    return replace(table(Email), policy=replace(Email.policy(), prune_after=seconds))


ACTIONS: dict[str, tuple[type[Model], Callable[[list[int]], Any]]] = {
    "retry failed mail": (Email, lambda keys: failed(keys).kick().changed),
    "bury": (Email, lambda keys: (failed(keys).kick(), failed(keys).bury())[1].changed),
    "cancel": (Email, lambda keys: failed(keys).cancel().changed),
    "archive": (Email, lambda _: archive.archive(table(Email))),
    "archive, in the archive": (ArchivedEmail, lambda _: archive.archive(table(Email))),
    "erase": (Email, lambda _: Eraser()(table(Email))),
    "erase in the archive": (ArchivedEmail, lambda _: Eraser()(table(Email))),
    "prune the archive": (ArchivedEmail, lambda _: archive.prune(pruned_after(DAY))),
    "prune failed mail": (Email, lambda _: FailedPruner(lambda: 60.0)(table(Email))),
    "search": (Email, lambda _: search_for_an_id_that_many_have()),
    "suppressed": (
        Suppression,
        lambda _: len(Suppression.objects.among(f"a{n}@x.example" for n in range(0, 4000, 8))),
    ),
    "prune minutes": (Minute, lambda _: roll_up.prune("default")),
    "prune receipts": (Receipt, lambda _: Receipt.objects.prune(table(Email))),
    "receipts' jobs": (Email, lambda _: Receipt.objects.prune(table(Email))),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_no_list_of_keys_has_a_table_read_as_a_whole(
    skewed: None, action: str, settings: Any, django_db_blocker: Any
) -> None:
    model, act = ACTIONS[action]
    if model not in BIG and connection.vendor == "postgresql":
        pytest.skip("it rightly reads a small table as a whole, and locks no row that it passes")
    setting(settings, MAIL_KEEP_BODIES=DAY, MAIL_KEEP_ROWS=2 * DAY)
    with django_db_blocker.unblock():
        keys = buried()
        with judged(name(model)) as complaints:
            count = act(keys)
        assert count >= 100, "nothing was done"
    assert [text for text in complaints if "reads all" in text and " IN (" in text] == []
