"""The plans of the statements of concurrency keys, among very many other jobs."""

import pytest
from django.db import connection, connections
from django.db.models import QuerySet

from django_dbqueue.dialects import dialect_of
from django_dbqueue.lifecycle import holder
from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.lifecycle.key_wakeup import wake_forgotten
from django_dbqueue.lifecycle.promotion import promote
from django_dbqueue.states import Status
from tests.kit.jobs import table
from tests.kit.query_plans import captured, indexes_written_by, judged
from tests.queueapp.models import Ordered, Shared

pytestmark = pytest.mark.usefixtures("db_rows")


def fill(model):
    """Ready without keys, done with keys, and parked ones of one key and of many."""
    model.objects.bulk_create(model() for _ in range(3000))
    model.objects.bulk_create(model(tenant=f"t{n % 300}") for n in range(3000))
    QuerySet(model).exclude(concurrency_key=None).update(status=Status.DONE)
    model.objects.bulk_create(model(tenant="x") for _ in range(2000))
    model.objects.bulk_create(model(tenant=f"p{n}") for n in range(500))
    QuerySet(model).filter(concurrency_key__isnull=False, status=0).update(status=Status.DELAYED)
    with connection.cursor() as cursor:
        name = model._meta.db_table
        cursor.execute(f"ANALYZE{' TABLE' if connection.vendor == 'mysql' else ''} {name}")


@pytest.mark.parametrize("model", [Shared, Ordered])
def test_claims_ends_and_wakeups_reach_their_rows_by_an_index(model):
    fill(model)
    dialect_of(connections["default"]).keep_to_indexes()
    with judged(model._meta.db_table) as found:
        assert len(claim(table(model), "default", 10, "w.1")) == 10
        model.objects.bulk_create(model(tenant=f"f{n % 5}", priority=1) for n in range(20))
        jobs = claim(table(model), "default", 10, "w.2")
        assert 5 <= len(jobs) <= 10
        holder.complete(table(model), "w.2", [job.claim_key for job in jobs])
        wake_forgotten(table(model))
    assert found == []


def forget_statistics(model):
    """None on SQLite, and elsewhere those of a table in which nothing waits."""
    QuerySet(model).bulk_create(model(status=Status.DONE, queue="old") for _ in range(1000))
    with connection.cursor() as cursor:
        if connection.vendor != "sqlite":
            name = model._meta.db_table
            cursor.execute(f"ANALYZE{' TABLE' if connection.vendor == 'mysql' else ''} {name}")
        elif "sqlite_stat1" in connection.introspection.table_names(cursor):
            cursor.execute("DELETE FROM sqlite_stat1")
    connection.close()  # it keeps what it has read of them


@pytest.mark.parametrize("count", [1, 10, 200])
def test_writes_reach_their_rows_by_key_where_statistics_say_nothing_of_what_waits(count):
    forget_statistics(Shared)
    name = Shared._meta.db_table
    Shared.objects.bulk_create(Shared(tenant=f"t{n}") for n in range(3000))
    Shared.objects.bulk_create(Shared(tenant="x", priority=1) for _ in range(400))
    Shared.objects.enqueue_many([{"tenant": "y"}] * 600, delay=0.001)
    dialect_of(connections["default"]).keep_to_indexes()
    with captured(name) as statements:
        for owner in ("w.1", "w.2"):  # the first one meets those that it parks
            assert 1 <= len(claim(table(Shared), "default", count, owner)) <= count
        assert promote(table(Shared))
    found = {index: str(one) for one in statements for index in indexes_written_by(one, name)}
    assert {index: said for index, said in found.items() if not index.endswith("primary")} == {}
