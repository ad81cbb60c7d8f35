"""A worker of many queues claims from several at once, where each of them has few jobs."""

from dataclasses import replace
from itertools import cycle

import pytest
from django.db import connection

from django_dbqueue.management.commands.runworker import Command
from django_dbqueue.metrics.recorder import RECORDER
from django_dbqueue.states import Status
from django_dbqueue.tasks.models import Task
from django_dbqueue.worker import joint_claim
from django_dbqueue.worker.buffer import AHEAD_BYTES_MAX, ALLOWANCE, Buffer
from django_dbqueue.worker.claimer import Claimer
from django_dbqueue.worker.joint_claim import QUEUES_MAX, Breadth, may_claim_jointly
from django_dbqueue.worker.queue_poller import TablePoller
from django_dbqueue.worker.shared_memory import SharedMemory
from django_dbqueue.worker.wakeup import Wakeup
from tests.kit.bounds import limits
from tests.kit.inline_worker import work_off
from tests.kit.jobs import table
from tests.kit.query_plans import captured
from tests.queueapp.models import Batch, Kept, Note
from tests.queueapp.versions import Versioned

pytestmark = [pytest.mark.usefixtures("db_rows", "quick_looks"), pytest.mark.each_database]


def claimer(*args, model=Note, batch=100, share=None, unwritten=lambda: 0):
    """Of a child with one runner, which takes what it has claimed at once."""
    command = Command()
    words = [f"queueapp.{model.__name__}", *args, f"--batch-size={batch}"]
    given = command.create_parser("manage.py", "runworker").parse_args(words)
    child = Buffer(1), SharedMemory(1), Wakeup([])
    options = command.options(vars(given))
    return Claimer(options, "w.1-", *child, share=share, unwritten=unwritten)


def turns(one):
    """Turn by turn, the queues of the jobs that it claims, until there are none."""
    found = []
    while not one.is_idle:
        one.turn()
        jobs = [job for item in one.buffer.withdraw() for job in item.jobs]
        found += [[job.queue for job in jobs]] if jobs else []
    return found


def names(count, prefix="q"):
    return [f"{prefix}{number:03}" for number in range(count)]


def enqueue(*queues, each=1, model=Note):
    model.objects.enqueue_many({"queue": queue} for queue in queues for _ in range(each))


def test_queues_of_few_jobs_are_claimed_from_together_and_a_thousand_take_few_claims():
    enqueue(*names(300), each=3)
    with captured(Note._meta.db_table) as statements:
        found = turns(claimer())
    assert sorted(queue for one in found for queue in one) == sorted(names(300) * 3)
    writes = [one for one in statements if one.is_write]
    assert len(writes) == len(found) <= 20


def test_it_does_not_look_at_all_queues_again_before_each_claim(monkeypatch):
    """Though all that it had claimed was done by then, time and again."""
    looks, look = [], TablePoller.look
    monkeypatch.setattr(TablePoller, "look", lambda *args: (looks.append(1), look(*args)))
    monkeypatch.setattr(joint_claim, "QUEUES_MAX", 1)
    enqueue(*names(40))
    assert len(turns(claimer(unwritten=cycle([1, 0]).__next__))) == 40
    assert len(looks) <= 4


def test_it_stops_as_empty_only_after_it_has_looked_again():
    enqueue(*names(5))
    work_off("queueapp.note", "--batch-size=1")
    assert Note.objects.done().count() == 5


def test_it_is_not_empty_before_it_has_looked_at_all_tables_after_its_last_job():
    """It put another one into a table where none was found, and had ended by the next turn."""
    enqueue("a", model=Kept)
    one, found = claimer("queueapp.Kept"), []
    while one.empty_for() < 0:
        one.turn()
        found += (items := one.buffer.withdraw())
        if items and items[0].table.model is Kept:
            enqueue("a")
    assert [item.table.model for item in found] == [Kept, Note]


def test_a_queue_that_fills_claims_is_claimed_from_alone():
    enqueue("a", "b", each=25)
    assert turns(claimer(batch=10)) == [
        *[["a"] * 10, ["b"] * 10] * 2,
        ["a"] * 5,
        ["b"] * 5,
    ]


def test_a_long_queue_among_short_ones_gets_a_batch_when_its_turn_has_come():
    enqueue(*names(9, "a"), *names(9, "c"))
    enqueue("b", each=60)
    found = turns(claimer(batch=10))
    assert found.count(["b"] * 10) >= 4
    assert sorted(q for one in found for q in one if q != "b") == names(9, "a") + names(9, "c")
    # It neither waits for all of the others nor keeps them waiting.
    last = next(n for n, one in enumerate(found) if "c008" in one)
    assert found.index(["b"] * 10) < last


def test_the_order_of_queues_is_kept():
    enqueue("high", "x1", "x2", "x3", "low", each=2)
    found = turns(claimer("--queue=high,x*,low", batch=10))
    assert [queue for one in found for queue in one] == [
        *["high"] * 2,
        *[one for one in ("x1", "x2", "x3") for _ in range(2)],
        *["low"] * 2,
    ]
    assert all(len({queue[0] for queue in one}) == 1 for one in found)


def test_weights_are_shares_of_what_is_claimed_though_some_have_many_queues():
    enqueue(*names(60, "many"))
    enqueue("one", each=60)
    found = [q for one in turns(claimer("--queue=many*=1,one=2", batch=4)) for q in one]
    first = found[:45]
    assert 11 <= sum(queue != "one" for queue in first) <= 19


def test_what_comes_from_several_queues_counts_for_their_weight():
    enqueue(*names(8, "many"))
    enqueue("one", each=16)
    one = claimer("--queue=many*=1,one=2", batch=4)
    [poller] = one.scheduler.pollers
    poller.breadth.queues = 4
    assert turns(one)[:3] == [names(4, "many"), ["one"] * 4, ["one"] * 4]


def test_it_takes_no_more_than_the_worker_may_run_and_knows_their_time_and_size():
    Note.objects.bulk_create(Note(queue=name, text="x" * 1000) for name in names(5))
    one = claimer(share=3)
    [poller] = one.scheduler.pollers
    poller.breadth.queues = 5
    one.turn()
    assert (len(one.buffer), one.left, Note.objects.ready().count()) == (3, 0, 2)
    assert one.sizes.jobs_max(table()) < AHEAD_BYTES_MAX / 1000
    for job in Note.objects.filter(status=Status.CLAIMED):
        seconds = (job.retry_at - job.dequeued_time).total_seconds()
        assert seconds == pytest.approx(60 + ALLOWANCE, abs=0.1)


def test_while_floors_are_in_force_each_queue_is_claimed_from_by_itself():
    enqueue(*names(5))
    scheduler = claimer().scheduler
    poller, name = scheduler.next()
    poller.breadth.queues = 5
    assert scheduler.asked(poller, name, table()) == [name, *names(5)[1:]]
    poller.floors.in_force = True
    assert scheduler.asked(poller, name, table()) == [name]


def test_queues_that_have_a_rate_are_claimed_from_by_themselves():
    with limits("queueapp.note:q001", rate="1000/s"):
        enqueue(*names(4), each=2)
        one = claimer()
        for _ in range(3):
            one.turn()
        asked = [one.scheduler.asked(poller, "q000", None) for poller in one.scheduler.pollers]
    assert asked == [["q000"]]


def test_jobs_that_run_as_a_batch_are_of_one_queue():
    enqueue(*names(6), each=2, model=Batch)
    assert turns(claimer(model=Batch)) == [[name] * 2 for name in names(6)]


def test_where_jobs_may_have_keys_or_need_a_version_each_queue_is_claimed_from_by_itself():
    assert may_claim_jointly(table(Note))
    assert not may_claim_jointly(table(Task))
    assert not may_claim_jointly(table(Versioned))
    assert not may_claim_jointly(replace(table(Note), takes_keys=True))


def test_other_tables_have_their_turn_in_between():
    enqueue(*names(40), each=2)
    enqueue(*names(3), model=Kept)
    one = claimer("queueapp.Kept", batch=10)
    labels = []
    while not one.is_idle:
        one.turn()
        labels += {item.table.label for item in one.buffer.withdraw()}
    assert labels[:4] == ["queueapp.note", "queueapp.kept"] * 2


def test_a_paused_queue_is_left_out():
    enqueue(*names(6))
    Note.objects.pause("q003")
    found = [queue for one in turns(claimer()) for queue in one]
    assert found == [name for name in names(6) if name != "q003"]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="it is text of SQLite's alone")
def test_a_queue_whose_name_is_no_text_takes_a_statement_of_its_own():
    enqueue(*names(6), "x")
    with connection.cursor() as cursor:
        name = Note._meta.db_table
        cursor.execute(f"UPDATE {name} SET queue = CAST(x'7aff' AS TEXT) WHERE queue = 'x'")
    one = claimer()
    one.turn()
    [poller] = one.scheduler.pollers
    assert len(poller.queues) == 6
    poller.breadth.queues = 10
    assert one.scheduler.asked(poller, "q001", table()) == names(6)[1:]
    assert one.scheduler.asked(poller, poller.queues[-1], table()) == [poller.queues[-1]]
    work_off("queueapp.note")
    assert Note.objects.ready().count() == 0


def test_what_a_full_claim_has_left_of_its_last_queue_may_begin_below_what_it_took():
    enqueue("a", "b", each=3)
    one = claimer(batch=4)
    [poller] = one.scheduler.pollers
    poller.breadth.queues = 2
    one.turn()
    assert [item.queue_name.queue for item in one.buffer.withdraw()] == ["a", "a", "a", "b"]
    poller.floors.in_force = True
    assert poller.floors.for_claim("a") != []
    assert poller.floors.for_claim("b") == []


def test_how_many_queues_are_asked_follows_what_the_last_claims_took():
    one, many = Breadth(), names(100)
    for expected in (2, 4, 8, 16, 32, QUEUES_MAX, QUEUES_MAX):
        asked = many[: one.queues]
        assert one.emptied(asked, {}, is_full=False) == asked
        assert one.queues == expected
    assert one.emptied(many[:64], {many[0]: [1], many[4]: [1]}, is_full=True) == many[:4]
    assert one.queues == 5
    assert one.emptied(many[:5], {many[0]: [1]}, is_full=True) == []
    assert one.queues == 1


def test_how_long_jobs_of_many_queues_have_waited_is_asked_once_in_each_claim(monkeypatch):
    told, many = [], names(300, "waiting")  # such as no other test has just asked about
    monkeypatch.setattr(RECORDER, "waited", lambda _, queue, seconds: told.append(queue))
    enqueue(*many, each=3)
    with captured(Note._meta.db_table) as statements:
        found = turns(claimer())
    looks = [one for one in statements if one.sql.startswith("SELECT") and "created_at" in one.sql]
    assert 0 < len(looks) <= len(found)
    assert set(told) == set(many)
