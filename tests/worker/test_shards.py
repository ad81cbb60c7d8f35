"""One queue table on several databases: who gets which job, what is shown, and what is away."""

from collections import Counter

import pytest
from django.db import connection

from django_dbqueue.shards import shards_of
from tests.kit.sharded import Sharded, databases
from tests.kit.waiting import wait_until

THREE = ["north", "south", "east"]
CUSTOMERS = [f"customer {number}" for number in range(20)]
DONE = 2


@pytest.fixture
def urls(db_rows, database_url, tmp_path):
    with databases(database_url, tmp_path, [*THREE, "west"]) as found:
        yield found


@pytest.fixture
def shop(urls, tmp_path):
    project = Sharded(tmp_path, {alias: urls[alias] for alias in THREE})
    yield project
    project.end()


def enqueue_for_all(shop, more=""):
    """One job of each customer by each way."""
    shop.shell(
        f"for name in {CUSTOMERS}:\n"
        f"    Report.objects.create(customer=name{more})\n"
        f"    assert Report.objects.enqueue(customer=name{more})[1]\n"
        f"    Report.objects.enqueue(customer=name, dedup_key=name{more})\n"
        f"    Report(customer=name{more}).save()"
    )


def homes(shop):
    """Of each customer, on which shards there are jobs, and how many."""
    found = {}
    for alias, rows in shop.rows().items():
        for customer, _ in rows:
            found.setdefault(customer, Counter())[alias] += 1
    return found


def all_done(shop, count):
    rows = [row for found in shop.rows().values() for row in found]
    return len(rows) == count and {status for _, status in rows} == {DONE}


def ready(status, part="queues"):
    return {one.get("database", "sum"): one["counts"]["ready"] for one in status[part]}


@pytest.mark.process
def test_jobs_of_a_key_land_on_one_shard_and_one_worker_runs_them_all(shop):
    enqueue_for_all(shop)
    assert homes(shop) == {one: {shards_of(one, THREE)[0]: 4} for one in CUSTOMERS}
    enqueue_for_all(shop)  # the twins are found on their shard
    assert homes(shop) == {one: {shards_of(one, THREE)[0]: 7} for one in CUSTOMERS}
    status = shop.status()
    by_shard = ready(status)
    assert sorted(by_shard) == sorted(THREE)
    assert ready(status, "sums") == {"sum": 140} == {"sum": sum(by_shard.values())}
    assert sorted(status["sums"][0]["databases"]) == sorted(THREE)
    text = " ".join(shop.manage("dbqueue", "status", code=1).split())
    assert f"shop.report@north default {by_shard['north']} " in text
    assert "sum of shop.report default 140 " in text
    assert shop.worker("shop.Report", "--stop-when-empty").wait(60) == 0
    assert all_done(shop, 140)


@pytest.mark.process
def test_a_shard_is_added_while_workers_run_and_another_one_is_emptied(shop, urls):
    running = [shop.worker("--database", alias) for alias in THREE]
    enqueue_for_all(shop)
    wait_until(lambda: all_done(shop, 80))
    before = homes(shop)
    shop.add("west", urls["west"])
    running.append(shop.worker("--database", "west"))
    enqueue_for_all(shop, ", queue='later'")
    assert "west" not in {alias for found in homes(shop).values() for alias in found}
    shop.takes = ["south", "east", "west"]
    enqueue_for_all(shop, ", queue='latest'")
    wait_until(lambda: all_done(shop, 240))
    for customer, found in homes(shop).items():
        [old] = before[customer]
        new = shards_of(customer, shop.takes)[0]
        assert found == Counter({old: 8}) + Counter({new: 4})
        assert new in {old, "west"} or old == "north"
    assert shop.status()["problems"] == {}
    assert {process.poll() for process in running} == {None}
    # North has no job that waits any more, and goes.
    running[0].terminate()
    assert running[0].wait(60) == 0
    del shop.shards["north"]
    assert shop.status()["problems"] == {}
    assert sorted(shop.rows()) == ["east", "south", "west"]


@pytest.mark.process
@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="cluster/test_shards.py has servers")
def test_while_a_shard_is_away_the_others_go_on_and_are_told_of(shop, tmp_path):
    assert connection.vendor == "sqlite"
    for alias in ("north", "east"):
        shop.worker("--database", alias)
    (tmp_path / "south").rename(tmp_path / "away")
    ours = [one for one in CUSTOMERS if shards_of(one, THREE)[0] != "south"]
    theirs = [one for one in CUSTOMERS if one not in ours]
    shop.shell(
        "from django.db import OperationalError\n"
        f"for name in {ours}: Report.objects.create(customer=name)\n"
        f"for name in {theirs}:\n"
        "    try:\n        Report.objects.create(customer=name)\n"
        "    except OperationalError: pass\n"
        "    else: raise AssertionError(name)"
    )
    wait_until(lambda: all_done(shop, len(ours)))
    shop.shell(f"for name in {ours}: Report.objects.enqueue(customer=name, delay=3600)")
    status = shop.status(code=1)
    assert list(status["problems"]) == ["database 'south'"]
    [whole] = status["sums"]
    assert sorted(whole["databases"]) == ["east", "north"]
    assert whole["counts"]["delayed"] == len(ours)
    assert "database 'south' cannot be asked" in shop.manage("dbqueue", "monitor", code=1)
    (tmp_path / "away").rename(tmp_path / "south")
    shop.shell(f"for name in {theirs}: Report.objects.create(customer=name)")
    assert ready(shop.status())["south"] == len(theirs)


REFUSED = """
def refused(make):
    try: make()
    except ValueError as error: return str(error)
east = Report.objects.using("east")
print(json.dumps([
    refused(lambda: Report.objects.enqueue_many([{"customer": "x"}])),
    refused(lambda: Report.objects.bulk_create([Report(customer="x")])),
    east.enqueue_many([{"customer": "x"}]),
    len(east.bulk_create([Report(customer="x")])),
]))
"""


def test_many_jobs_at_once_need_a_named_shard(shop):
    said = "shop.Report is on several databases (north, south, east): "
    said += "name the one for these jobs by using()"
    assert shop.shell(REFUSED) == [said, said, 1, 1]
    assert [len(rows) for rows in shop.rows().values()] == [0, 0, 2]


def test_a_command_about_one_job_asks_for_its_shard(shop):
    shop.shell("Report.objects.using('east').create(customer='x')")
    said = shop.manage("dbqueue", "explain", "shop.Report", "1", code=2)
    assert "name one of shop.report@north, shop.report@south, shop.report@east" in said
    assert "shop.report 1: ready" in shop.manage("dbqueue", "explain", "shop.Report@east", "1")
    shop.manage("dbqueue", "pause", "shop.Report")
    assert shop.status()["paused"] == [["shop.report", "default"]] * 3


@pytest.mark.any_database
def test_a_shard_more_takes_keys_from_each_and_moves_no_other():
    keys = [f"key {number}" for number in range(3000)]
    before = {key: shards_of(key, THREE)[0] for key in keys}
    after = {key: shards_of(key, [*THREE, "west"])[0] for key in keys}
    counts = Counter(before.values())
    assert all(900 < counts[alias] < 1100 for alias in THREE)
    moved = [key for key in keys if before[key] != after[key]]
    assert {after[key] for key in moved} == {"west"}
    assert 600 < len(moved) < 900
    assert {before[key] for key in moved} == set(THREE)
    assert shards_of("x", THREE) == shards_of("x", THREE[::-1])
