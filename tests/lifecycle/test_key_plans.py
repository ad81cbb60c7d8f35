"""The plans of the statements of concurrency keys, among very many other jobs."""

import pytest
from django.db import connection, connections
from django.db.models import QuerySet

from django_dbqueue.dialects import dialect_of
from django_dbqueue.lifecycle import holder
from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.lifecycle.key_wakeup import wake_forgotten
from django_dbqueue.states import Status
from tests.kit.jobs import table
from tests.kit.query_plans import judged
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
