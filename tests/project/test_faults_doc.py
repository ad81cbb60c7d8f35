"""docs/faults.md names tests that exist; and the faults that no other file shows."""

import re
from pathlib import Path

import pytest
from django.db import connection

from django_dbqueue.backoff import Exponential
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.queue_poller import TablePoller
from django_dbqueue.worker.served import parse_served
from tests.kit.jobs import claimed
from tests.queueapp.models import Batch, Note

TESTS = Path(__file__).resolve().parents[1]
FAULTS = (TESTS.parent / "docs" / "faults.md").read_text()
CATALOGUE = {"P": 18, "D": 18, "T": 8, "O": 8, "X": 7, "E": 4}


def test_every_test_that_is_named_exists():
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", FAULTS)
    assert len(named) > 40
    missing = [
        f"{file}::{test}"
        for file, test in named
        if f"def {test}(" not in (TESTS / file).read_text()
    ]
    assert missing == []


def test_every_fault_of_the_catalogue_has_a_row():
    heads = " ".join(row.split("|")[1] for row in FAULTS.splitlines() if row.startswith("| "))
    heads = re.sub(r"(\w)(\d+) - \w(\d+)", _spelt_out, heads)
    known = set(re.findall(r"[A-Z]\d+", heads))
    assert known == {f"{kind}{n}" for kind, last in CATALOGUE.items() for n in range(1, last + 1)}


def _spelt_out(found):
    kind, first, last = found.groups()
    return " ".join(f"{kind}{n}" for n in range(int(first), int(last) + 1))


def test_jobs_that_failed_together_do_not_come_back_together():
    pauses = [Exponential().seconds(2) for _ in range(1000)]
    tenths = [int(10 * pause) for pause in pauses]
    assert max(tenths.count(tenth) for tenth in set(tenths)) < 100


@pytest.mark.usefixtures("db_rows")
def test_idle_workers_look_ever_less_often_and_not_together():
    options = Options(served=parse_served(["queueapp.Note"]), sleep=4)
    pollers = [TablePoller(options.served[0]) for _ in range(20)]
    waits = []
    for watch in pollers:
        for _ in range(25):
            watch.look(options)
        waits.append(watch.next_look - watch.looked_at)
    assert all(watch.pause == 4 for watch in pollers)
    assert min(waits) > 2.9
    assert max(waits) - min(waits) > 0.3


@pytest.mark.usefixtures("db_rows")
def test_an_update_that_changes_nothing_counts_its_row():
    Note.objects.create(text="as it was")
    assert Note.objects.filter(text="as it was").update(text="as it was") == 1


@pytest.mark.usefixtures("db_rows")
@pytest.mark.parametrize("verb", ["complete", "release", "touch", "bury"])
def test_a_table_that_is_emptied_under_a_claim_is_no_error(verb):
    job = claimed(Batch)
    name = connection.ops.quote_name(Batch._meta.db_table)
    empty = "DELETE FROM" if connection.vendor == "sqlite" else "TRUNCATE TABLE"
    with connection.cursor() as cursor:
        cursor.execute(f"{empty} {name}")
    getattr(job, verb)()
    assert not Batch.objects.exists()
