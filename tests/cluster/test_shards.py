"""60,000 jobs on three private servers, of which one is killed, while a fourth one is added."""

import json
import threading
import time
from collections import Counter
from contextlib import ExitStack

import pytest
from database_servers import PostgreSQL

from tests.kit.clusters import short_folder
from tests.kit.sharded import Sharded
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.process, pytest.mark.any_database]
DONE = 2
CHUNK = 50

# Each chunk goes to the shard of its customer, or to the next one while that is away.
PRODUCE = """
import sys, time, json, django
django.setup()
from django.conf import settings
from django.db import Error, connections
from django_dbqueue.shards import shards_of
from shop.models import Report
first, last, chunk = map(int, sys.argv[1:])
away, lost = 0, []
for start in range(first, last, chunk):
    rows = [{"customer": f"{start} {number}"} for number in range(start, start + chunk)]
    for alias in shards_of(start, settings.TAKES):
        try:
            Report.objects.using(alias).enqueue_many(rows)
            break
        except Error:
            away += 1
            lost.append(start)
            connections[alias].close()
    else:
        raise SystemExit("no shard is there")
print(json.dumps([away, lost]))
"""


class Shards(Sharded):
    def produce(self, first, last):
        found = self.start("-c", PRODUCE, str(first), str(last), str(CHUNK), log=f"from{first}.log")
        out, _ = found.communicate(timeout=600)
        assert found.returncode == 0, (self.folder / f"from{first}.log").read_text()
        return json.loads(out)

    def done(self, alias):
        text = f"print(Report.objects.using('{alias}').done().count())"
        return self.shell(text)

    def times(self, alias):
        """Of each job, its name, its state, and when it began and ended."""
        return self.shell(
            "print(json.dumps([[name, status, began and began.timestamp(), ended and "
            "ended.timestamp()] for name, status, began, ended in Report.objects.using("
            f"'{alias}').values_list('customer', 'status', 'dequeued_time', 'finished_at')]))"
        )


@pytest.fixture
def servers():
    with ExitStack() as stack:
        found = {}
        for alias in ("north", "south", "east", "west"):
            found[alias] = PostgreSQL(stack.enter_context(short_folder()))
            stack.callback(found[alias].stop)
            found[alias].start()
        yield found


def test_60_000_jobs_while_a_shard_is_killed_and_one_is_added(servers, tmp_path, full):
    jobs = 60_000 if full else 6000
    first, second, third = (jobs * part // 10 for part in (3, 6, 8))
    shop = Shards(tmp_path, {alias: servers[alias].url() for alias in ("north", "south", "east")})
    try:
        for alias in shop.shards:
            shop.worker("--database", alias)
        began = time.monotonic()
        parts = [shop.produce(0, first)]
        # South is killed while jobs are enqueued, and the others go on.
        kill = threading.Timer(1, servers["south"].kill)
        kill.start()
        parts.append(shop.produce(first, second))
        kill.join()
        assert list(shop.status(code=1)["problems"]) == ["database 'south'"]
        # West is added meanwhile.
        shop.add("west", servers["west"].url())
        shop.worker("--database", "west")
        shop.takes.append("west")
        parts.append(shop.produce(second, third))
        servers["south"].start()
        parts.append(shop.produce(third, jobs))
        wait_until(lambda: sum(map(shop.done, shop.shards)) >= jobs, 600, 1)
        seconds = time.monotonic() - began
        wait_until(lambda: is_empty(shop.status()), 60, 1)
        tell(shop, jobs, seconds, parts)
    finally:
        shop.end()


def is_empty(status):
    sums = [one["counts"] for one in status["sums"]]
    return not any(one["ready"] + one["claimed"] + one["delayed"] for one in sums)


def tell(shop, jobs, seconds, parts):
    """The sums, which have to add up, and the rates."""
    names, total = Counter(), 0
    for alias in shop.shards:
        rows = shop.times(alias)
        assert {status for _, status, _, _ in rows} == {DONE}
        names.update(name for name, _, _, _ in rows)
        total += len(rows)
        ends = Counter(int(end) for _, _, _, end in rows)
        rate, busy = len(rows) / len(ends), len(ends)
        print(f"\n{alias}: {len(rows):,} jobs in {busy} busy seconds, {rate:.0f} jobs/s", end="")
    twice = {name.split()[0] for name, count in names.items() if count > 1}
    away = sum(number for number, _ in parts)
    print(
        f"\nall: {total:,} rows of {len(names):,} jobs in {seconds:.1f} s, {total / seconds:.0f} "
        f"jobs/s; {away} chunks of {CHUNK} went elsewhere, {len(twice)} are on two shards"
    )
    assert len(names) == jobs
    # Only what was lost on its way, with the answer, may be on two shards.
    assert twice <= {str(start) for _, unsure in parts for start in unsure}
    assert away > 0
    assert parts[0] == parts[3] == [0, []]
