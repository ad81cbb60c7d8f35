"""``dbqueue restart``: which workers are asked, and what becomes of them."""

import pytest
from django.core.management import CommandError

from django_dbqueue.fields import DbNow
from django_dbqueue.models import Worker
from tests.kit.command_line import as_json, dbqueue, fails, refused
from tests.kit.overview import Away, a_worker
from tests.kit.processes import worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Kept, Note

pytestmark = [pytest.mark.usefixtures("db_rows")]


def asked() -> list[int]:
    rows = Worker.objects.filter(restart_requested=True, stop_requested_at__isnull=False)
    return sorted(rows.values_list("pid", flat=True))


@pytest.fixture
def four():
    """One of a host, two of another, and one that is gone."""
    for number, host in enumerate(["web1", "web2", "web2"], 1):
        a_worker(pid=number, host=host)
    a_worker(pid=4, host="web1", stopped_at=DbNow())


@pytest.mark.parametrize(
    ("names", "pids"),
    [
        ([], [1, 2, 3]),
        (["web2"], [2, 3]),
        (["web1", "web2:3"], [1, 3]),
    ],
)
def test_all_that_live_are_asked_or_those_that_are_named(four, names, pids):
    told = dbqueue("restart", *names)
    assert asked() == pids
    assert told.count("was asked to restart") == len(pids)


def test_where_one_name_is_unknown_nobody_is_asked(four):
    assert "'web3' means no living worker" in refused("restart", "web1", "web3")
    assert asked() == []


def test_without_workers_it_says_so():
    assert dbqueue("restart") == "no worker lives\n"
    assert as_json("restart") == {"version": 1, "workers": []}


def test_who_is_asked_to_stop_after_that_stays_stopped(four):
    dbqueue("restart", "web1")
    dbqueue("workers", "--stop", "web1")
    assert asked() == []


@pytest.mark.parametrize(("words", "code"), [(["restart"], 12), (["workers", "--stop"], 0)])
def test_a_worker_finishes_what_runs_and_exits_to_be_started_again_or_not(
    words, code, database_url, tmp_path
):
    log = tmp_path / "log"
    slow = Note.objects.create(seconds=1, log=str(log))
    with worker(database_url, "queueapp.Note", DBQUEUE_BEAT_INTERVAL="0.2") as process:
        wait_until(log.exists)
        wait_until(lambda: Worker.objects.filter(pid=process.pid).exists())
        name = Worker.objects.get(pid=process.pid).uuid
        dbqueue(*words, name)
        assert process.end() == code
    slow.refresh_from_db()
    assert slow.state == "done"
    reason = Worker.objects.get(pk=name).stop_reason
    assert reason == ("restart requested in its row" if code else "requested in its row")


def test_a_worker_of_many_tables_is_shown_in_a_short_line():
    tables = [f"shop.table{number}" for number in range(9)]
    Worker.objects.create(uuid="a" * 32, host="web1", pid=1, beat_at=DbNow(), serves=tables)
    assert "  shop.table0, shop.table1 and 7 more  " in dbqueue("workers")
    assert as_json("workers")["workers"][0]["serves"] == tables


@pytest.fixture
def away(settings):
    """One table's database."""
    found = Away(Kept)
    settings.DATABASE_ROUTERS = [found]
    yield
    settings.DATABASE_ROUTERS = []
    found.end()


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize(
    "words",
    [["restart"], ["restart", "web2"], ["restart", "--json"], ["workers", "--stop", "web2"]],
)
def test_those_are_asked_whose_database_can_be_asked(four, words):
    printed, why = fails(1, *words)
    assert "web2" in printed
    assert why.startswith("database 'away' cannot be asked: ")
    pids = set(Worker.objects.filter(stop_requested_at__isnull=False).values_list("pid", flat=True))
    assert pids == ({2, 3} if "web2" in words else {1, 2, 3})


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("words", [["restart", "web1", "web3"], ["workers", "--drain", "web3"]])
def test_who_is_unknown_may_be_where_nobody_can_be_asked(four, words):
    why = refused(*words)
    assert "'web3' means no living worker" in why
    assert "\ndatabase 'away' cannot be asked: " in why
    assert asked() == []
    with pytest.raises(CommandError, match="unable to open"):
        dbqueue(*words, "--database", "away")
