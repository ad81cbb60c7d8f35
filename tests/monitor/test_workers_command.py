"""``dbqueue workers``: who works, in which state, and how to ask somebody to stop."""

import json
import re
import uuid
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.urls import reverse

from django_dbqueue.fields import DbNow
from django_dbqueue.management import asking
from django_dbqueue.models import Worker
from tests.kit.processes import worker as worker_process
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.usefixtures("db_rows")


def command(*args):
    out = StringIO()
    call_command("dbqueue", *args, stdout=out)
    return out.getvalue()


def listed(*args):
    found = json.loads(command("workers", "--json", *args))
    assert found["version"] == 1
    return {member["pid"]: member for member in found["workers"]}


def states():
    return {pid: member["state"] for pid, member in listed().items()}


def note(number):
    return {"job": f"queueapp.note {number}", "seconds": 1.5}


def a_worker(pid, host="web1", **columns):
    """The row of a worker that beats now, unless the columns say otherwise."""
    name = columns.pop("uuid", uuid.uuid4().hex)
    return Worker.objects.create(uuid=name, host=host, pid=pid, **columns)


def asked():
    """The pids of those that were asked to stop."""
    found = Worker.objects.filter(stop_requested_at__isnull=False)
    return sorted(found.values_list("pid", flat=True))


@pytest.fixture
def staff(client):
    """A browser of somebody who may see all."""
    anna = User.objects.create_superuser("anna")
    client.force_login(anna)
    yield client
    anna.delete()


def shown(client):
    """The states that the admin shows, by pid."""
    page = client.get(reverse("admin:dbqueue_worker_changelist")).content.decode()
    found = re.findall(r"pid (\d+),.*?dbqueue-state-(\w+)", page, re.DOTALL)
    return {int(pid): state for pid, state in found}


def test_each_state_is_told_by_the_database_clock(staff, settings):
    settings.DBQUEUE = {"WORKER_TIMEOUT": 1000.0}
    a_worker(1)
    a_worker(2, beat_at=DbNow(plus=-1001))
    a_worker(3, stop_requested_at=DbNow())
    a_worker(4, stopped_at=DbNow(), stop_reason="TERM", stop_requested_at=DbNow())
    a_worker(5, paused=True)
    a_worker(6, beat_at=DbNow(plus=-900))
    a_worker(7, stop_reason="SIGTERM")
    assert states() == {
        1: "alive",
        2: "silent",
        3: "stopping",
        4: "stopped",
        5: "paused",
        6: "alive",
        7: "stopping",
    }
    assert "stopped (TERM)" in command("workers")
    assert shown(staff) == states()
    one = reverse("admin:dbqueue_worker_change", args=[Worker.objects.get(pid=2).pk])
    assert "silent" in staff.get(one).content.decode()


def test_a_worker_is_silent_after_ten_seconds():
    a_worker(1, beat_at=DbNow(plus=-11))
    assert states() == {1: "silent"}


def test_a_worker_is_listed_with_what_it_serves_runs_and_needs():
    row = a_worker(
        7,
        serves=["queueapp.note", "shop.thumbnail:big"],
        running={"100": [note(1), note(2)], "101": [{"job": "shop.thumbnail 3", "seconds": 2.0}]},
        memory=50 * 2**20,
        pool={"processes": 2, "least": 2, "most": 2},
        started_at=DbNow(plus=-7300),
        beat_at=DbNow(plus=-190),
    )
    head, line = command("workers").splitlines()
    assert " ".join(head.split()) == "worker serves started last beat memory processes runs state"
    assert str(row) in line
    for text in (
        "queueapp.note, shop.thumbnail:big",
        "2 h ago",
        "3 min ago",
        "50.0 MB  2          3  ",
    ):
        assert text in line
    member = listed()[7]
    assert member["running"] == 3
    assert 7300 <= member["started_seconds"] < 7340
    assert 190 <= member["beat_seconds"] < 230


def test_a_worker_is_listed_with_how_many_processes_it_has_and_why(settings):
    settings.DBQUEUE = {"WORKER_TIMEOUT": 1000.0}
    texts = ["2 -> 3 processes: the oldest job of shop.thumbnail:default has waited 14 s", "older"]
    decisions = [{"seconds": n, "text": text} for n, text in enumerate(texts)]
    pool = {"processes": 3, "least": 1, "most": 8, "held": "why", "decisions": decisions}
    row = a_worker(7, pool=pool | {"queues": {"a:x": 2}}, beat_at=DbNow(plus=-190))
    a_worker(8, pool="nonsense")
    a_worker(9, pool={"processes": "x", "decisions": [3, {}], "queues": 3})
    lines = command("workers").splitlines()
    assert any(line.startswith(str(row)) and "  3 of 1-8  " in line for line in lines)
    at = lines.index(f"{row}:")
    assert lines[at + 1].strip() == "processes by queue: a:x 2"
    assert lines[at + 2].strip() == f"3 min ago: {texts[0]}"
    assert lines[at + 3].strip() == "3 min ago: older"
    pools = {pid: member["pool"] for pid, member in listed().items()}
    assert pools[7]["processes"] == 3
    assert [one["text"] for one in pools[7]["decisions"]] == texts
    assert 190 <= pools[7]["decisions"][0]["seconds"] < 230
    assert pools[8] == pools[9]


def test_a_time_zone_without_use_tz_changes_no_age(settings):
    settings.USE_TZ, settings.TIME_ZONE = False, "Asia/Tokyo"
    settings.DBQUEUE = {"WORKER_TIMEOUT": 1000.0}
    a_worker(1, beat_at=DbNow(plus=-5))
    assert 5 <= listed()[1]["beat_seconds"] < 600  # hours would be wrong
    assert states() == {1: "alive"}


def test_without_workers_it_says_so():
    assert command("workers").strip() == "no workers"
    assert json.loads(command("workers", "--json")) == {"version": 1, "workers": []}


def test_the_living_come_first():
    a_worker(1, host="a", stopped_at=DbNow())
    a_worker(2, host="b")
    assert list(listed()) == [2, 1]


@pytest.mark.parametrize(
    ("name", "pids"),
    [
        ("0a1b2c3d4e5f" + "0" * 20, [1]),
        ("0a1b", [1]),
        ("0A1B-2C3D", [1]),
        ("web1:2", [2]),
        ("WEB1", [1, 2]),
        ("web2", [3]),
    ],
)
def test_a_name_means_one_worker_or_all_of_a_host(name, pids):
    a_worker(1, uuid="0a1b2c3d4e5f" + "0" * 20)
    a_worker(2, uuid="1" * 32)
    a_worker(3, host="web2", uuid="2" * 32)
    a_worker(4, uuid="0a1b" + "f" * 28, stopped_at=DbNow())
    a_worker(5, host="web2", uuid="3" * 32, beat_at=DbNow(plus=-60))
    told = command("workers", "--stop", name)
    assert asked() == pids
    for row in Worker.objects.filter(pid__in=pids):
        assert f"{row} was asked to stop" in told
    assert "shutdown timeout" in told


@pytest.mark.parametrize("name", ["0a1", "web", "web1:9", "web3", "web2", "ffff", ""])
def test_an_unknown_name_stops_nobody_and_names_the_living(name):
    a_worker(1, uuid="0a1b" + "0" * 28)
    a_worker(2, host="web2", stopped_at=DbNow(), uuid="1" * 32)
    with pytest.raises(CommandError) as refused:
        command("workers", "--stop", name)
    assert "web1:1" in str(refused.value)
    assert "web2:2" not in str(refused.value)
    assert asked() == []


def test_the_beginning_of_two_uuids_stops_neither():
    a_worker(1, uuid="0a1b" + "0" * 28)
    a_worker(2, uuid="0a1b" + "1" * 28)
    with pytest.raises(CommandError, match="several workers"):
        command("workers", "--stop", "0a1b")
    assert asked() == []


def test_a_host_that_reads_like_a_uuid_stops_neither():
    a_worker(1, host="cafe", uuid="0" * 32)
    a_worker(2, uuid="cafe" + "1" * 28)
    with pytest.raises(CommandError, match="several workers"):
        command("workers", "--stop", "cafe")
    command("workers", "--stop", "cafe:1")
    assert asked() == [1]


def test_the_request_bears_the_time_of_the_database():
    a_worker(1)
    command("workers", "--stop", "web1", "--json")
    soon = Worker.objects.filter(
        stop_requested_at__gt=DbNow(plus=-600), stop_requested_at__lte=DbNow()
    )
    assert soon.count() == 1


def test_an_unknown_database_is_refused():
    with pytest.raises(CommandError, match="known: default"):
        command("workers", "--database", "elsewhere")


def test_a_real_worker_stops_when_it_is_asked_by_its_host_and_pid(database_url):
    with worker_process(database_url, "queueapp.Note", DBQUEUE_BEAT_INTERVAL="0.2") as process:
        wait_until(lambda: process.pid in listed())
        member = listed()[process.pid]
        assert member["state"] == "alive"
        assert member["serves"] == ["queueapp.note"]
        assert member["memory"] > 2**20
        command("workers", "--stop", f"{member['host']}:{process.pid}")
        assert process.end() == 0
        assert states()[process.pid] == "stopped"


def test_the_admin_lists_workers_in_words_the_living_first(staff):
    columns: dict[str, Any] = {
        "host": "web1",
        "serves": ["shop.Thumbnail", "dbqueue_mail.Email"],
    }
    old = Worker.objects.create(uuid="a" * 32, pid=1, stop_reason="SIGTERM", **columns)
    Worker.objects.filter(pk=old.pk).sign_off("SIGTERM")
    runs = {
        "7": [{"job": "shop.thumbnail 5", "seconds": 1}, {"job": "shop.thumbnail 6", "seconds": 1}],
        "8": [{"job": "shop.thumbnail 9", "seconds": 1}],
    }
    # A beat to come: nothing has passed since, however slow this machine is.
    columns["beat_at"] = DbNow(plus=60)
    Worker.objects.create(uuid="b" * 32, pid=2, running=runs, **columns)
    page = staff.get(reverse("admin:dbqueue_worker_changelist")).content.decode()
    assert ">shop.Thumbnail, dbqueue_mail.Email<" in page
    for job in ("shop.thumbnail 5", "shop.thumbnail 6", "shop.thumbnail 9"):
        assert f">{job}</a> for 1 s" in page
    assert shown(staff) == {2: "alive", 1: "stopped"}
    assert ">SIGTERM<" in page
    assert page.index("b" * 32) < page.index("a" * 32)


@pytest.mark.parametrize("verb", ["stop", "drain", "resume"])
@pytest.mark.parametrize(
    ("arguments", "using"), [(["--database", "default"], "default"), ([], None)]
)
def test_who_is_asked_is_looked_for_on_the_database_that_is_named(
    monkeypatch, verb, arguments, using
):
    asked = []
    monkeypatch.setattr(asking, "request_known", lambda *who: asked.append(who) or ([], {}))
    command("workers", f"--{verb}", "web1", *arguments)
    assert asked == [(verb, ["web1"], using)]
