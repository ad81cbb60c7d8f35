"""Whatever a hand writes into the columns of a row, the jobs beside it are done."""

import io
import itertools

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.db.models import QuerySet

from django_dbqueue.states import Status
from tests.fuzz.rows import KINDS, OF_NOTES, spoil, unprotected
from tests.fuzz.tally import Tally
from tests.fuzz.working import ERROR_KINDS, work_off
from tests.kit.command_line import status
from tests.kit.processes import worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Kept, Note

pytestmark = pytest.mark.usefixtures("db_rows")

BAD, GOOD = 30, 4  # rows of a round


def emptied():
    with connection.cursor() as cursor:
        for model in (Note, Kept, Kept._meta.apps.get_model(Kept.Policy.archive)):
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(model._meta.db_table)}")


def spoiled(tally, model, kinds):
    rows = [model.objects.create() for _ in range(BAD)]
    with unprotected():
        said = [spoil(tally.random, model, row.pk, kinds) for row in rows]
    tally.tried += sum(one is not None for one in said)
    tally.refused += said.count(None)
    return [one for one in said if one]


def good():
    found = {}
    for model, queue in itertools.product((Note, Kept), ("default", "other")):
        jobs = [model.objects.create(queue=queue) for _ in range(GOOD)]
        found.setdefault(model, []).extend(job.pk for job in jobs)
    return found


@pytest.fixture
def staff(client):
    user = User.objects.create_superuser("staff")
    client.force_login(user)
    yield client
    user.delete()


def look(staff):
    """What people look at."""
    assert status()
    assert status("--json")
    call_command("dbqueue", "workers", stdout=io.StringIO())
    for page in ("", "?state=1", "?queue=default"):
        answer = staff.get(f"/admin/queueapp/note/{page}")
        assert answer.status_code == 200, page


def by_hand(tally):
    """A person's verbs, on all there is."""
    verb = tally.random.choice(["bury", "kick", "release", "cancel"])
    getattr(Note.objects.all(), verb)()


def a_round(tally, staff):
    said = spoiled(tally, Note, KINDS | OF_NOTES) + spoiled(tally, Kept, KINDS)
    jobs = good()
    steps = {
        "working": lambda: work(jobs),
        "looking": lambda: look(staff),
        "by hand": lambda: by_hand(tally),
        "working again": lambda: work({}),
    }
    for name, step in steps.items():
        try:
            step()
        except Exception as error:
            tally.crashed(f"{name} {tally.tried}", error)
            print(name, *said, sep="\n  ")


def work(jobs):
    assert work_off(jobs, "queueapp.Note", "queueapp.Kept") == []


def test_rows_of_nonsense_stop_no_row_beside_them(full, staff):
    tally = Tally("rows")
    least = 4_000 if full else 150
    while tally.tried < least and len(tally.crashes) < 20:
        a_round(tally, staff)
        emptied()
    tally.end(least)


def is_done(jobs):
    done = [QuerySet(model).filter(pk__in=keys, status=Status.DONE) for model, keys in jobs.items()]
    return sum(found.count() for found in done) == sum(map(len, jobs.values()))


def test_a_real_worker_goes_on_beside_them(full, database_url):
    tally = Tally("rows for real workers")
    fast = {"DBQUEUE_BEAT_INTERVAL": "0.2", "DBQUEUE_WORKER_TIMEOUT": "5"}
    for _ in range(10 if full else 1):
        said = spoiled(tally, Note, KINDS | OF_NOTES) + spoiled(tally, Kept, KINDS)
        jobs = good()
        with worker(database_url, "queueapp.Note", "queueapp.Kept", **fast) as process:
            wait_until(lambda jobs=jobs: is_done(jobs), seconds=90)
            process.popen.terminate()
            assert process.end() == 0, process.stderr
        kinds = (*ERROR_KINDS, "exit code")
        lines = process.stderr.splitlines()
        troubles = [line for line in lines if any(kind in line for kind in kinds)]
        # That comes of a busy machine, and of no row.
        troubles = [line for line in troubles if "database is locked" not in line]
        assert troubles == [], "\n  ".join([process.stderr, *said])
        emptied()
    tally.end(300 if full else 30)
