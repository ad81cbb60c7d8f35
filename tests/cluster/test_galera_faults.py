"""Jobs while the nodes of a Galera cluster are killed, frozen and isolated in turn."""

import signal
import time
from collections import Counter
from contextlib import ExitStack

import pytest
from django.db import connections

from django_dbqueue.dialects import dialect_of
from django_dbqueue.states import Status
from tests.kit.galera import NODES, Producer
from tests.kit.processes import lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Effect, Note, Transfer

pytestmark = [pytest.mark.cluster, pytest.mark.process, pytest.mark.any_database]
FAULT_SECONDS = 6  # for which a node is away
REST_SECONDS = 3  # between two faults
ENQUEUED_SECONDS = 900
DRAIN_SECONDS = 240
QUICK = {"DBQUEUE_BEAT_INTERVAL": "0.5", "DBQUEUE_WORKER_TIMEOUT": "5"}


def kill(node):
    node.kill()
    time.sleep(FAULT_SECONDS)
    node.start_again()


def freeze(node):
    node.freeze()
    time.sleep(FAULT_SECONDS)
    node.thaw()


def isolate(node):
    node.isolate()
    time.sleep(FAULT_SECONDS)
    node.isolate(on=False)


FAULTS = [kill, freeze, isolate]


def cause_trouble(galera, producers):
    """Every fault on every node in turn, until all is enqueued; which there were."""
    done, give_up = Counter(), time.monotonic() + ENQUEUED_SECONDS
    while not all(one.has_ended() for one in producers):
        number = done.total()
        FAULTS[number % 3](galera.nodes[(number + number // 3) % 3])
        done[FAULTS[number % 3].__name__] += 1
        galera.wait_until_whole()
        time.sleep(REST_SECONDS)
        assert time.monotonic() < give_up
    return done


def rows(model):
    connections[NODES[0]].close()
    dialect_of(connections[NODES[0]]).catch_up()
    return model.objects.using(NODES[0])


def unfinished():
    return [rows(model).exclude(status=Status.DONE).count() for model in (Note, Transfer)]


def drained():
    return wait_until(lambda: unfinished() == [0, 0], DRAIN_SECONDS, every=1)


def starts(log):
    return Counter(int(line.split()[0]) for line in lines(log))


def test_jobs_survive_each_fault_of_each_node(galera, tmp_path, full):
    count = 20_000 if full else 3_000
    log = str(tmp_path / "log")
    urls = [galera.proxy.url_of(port) for port in galera.proxy.prefers]
    with ExitStack() as stack:
        workers = [stack.enter_context(worker(url, **QUICK)) for url in urls]
        producers = [
            Producer(count // 3 + (n < count % 3), f"p{n}", log, urls[n:] + urls[:n])
            for n in range(3)
        ]
        for one in producers:
            stack.callback(one.kill)
        began = time.monotonic()
        faults = cause_trouble(galera, producers)
        drained()
        seconds = time.monotonic() - began
        answers = [one.answer() for one in producers]
        for one in workers:
            one.send(signal.SIGTERM)
            assert one.end() == 0
    judge(count, log, answers)
    lost = sum(one["lost"] for one in answers)
    print(f"\n{count} jobs in {seconds:.0f} s, {dict(faults)}, connections lost by callers: {lost}")


def judge(count, log, answers):
    notes = list(rows(Note).values())
    once = list(rows(Transfer).values())
    texts = Counter([one["text"] for one in notes] + [one["data"]["text"] for one in once])
    started = starts(log)
    effects = Counter(rows(Effect).values_list("job", flat=True))
    repeated = [
        (one, runs)
        for one in notes
        if (runs := started[one["id"]]) != 1
        and not (runs > 1 and (one["losses"] or one["crashes"] or one["attempts"] > 1))
    ]
    print(
        f"\n{len(notes)} + {len(once)} jobs; losses {sum(bool(o['losses']) for o in notes)}, "
        f"started more than once {sum(n > 1 for n in started.values())}, "
        f"without cause {len(repeated)}; errors at callers {[one['errors'] for one in answers]}"
    )
    assert [one["errors"] for one in answers] == [{}] * 3
    assert len(texts) == count
    assert set(texts.values()) == {1}
    assert effects == Counter(one["id"] for one in once)
    assert not repeated
    assert {tuple(one["errors"]) for one in notes + once} == {()}


def test_connections_that_are_spread_charge_no_job_and_hold_none_up(galera, tmp_path, full):
    count = 2_000 if full else 300
    log = str(tmp_path / "log")
    Note.objects.using(NODES[0]).enqueue_many([{"log": log}] * count)
    Transfer.objects.using(NODES[0]).bulk_create(
        [Transfer(log=f"{log}.once") for _ in range(count)]
    )
    url = galera.proxy.url_of(galera.proxy.spread)
    with worker(url, **QUICK) as one, worker(url, **QUICK) as other:
        drained()
        for process in (one, other):
            process.send(signal.SIGTERM)
            assert process.end() == 0
    for model in (Note, Transfer):
        columns = "status", "attempts", "crashes", "losses", "errors"
        assert {str(row) for row in rows(model).values_list(*columns)} == {
            str((int(Status.DONE), 1, 0, 0, []))
        }
    assert set(starts(log).values()) == {1}
    assert rows(Effect).count() == count
