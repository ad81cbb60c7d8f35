"""What a supervisor does for others and for itself: it judges, gives back, counts and signs off."""

import time

import pytest
from django.db.models import QuerySet
from django.db.utils import OperationalError

from django_dbqueue import events
from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle import held
from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.models import Worker
from django_dbqueue.monitor.worker_requests import request_drain, request_resume
from django_dbqueue.states import Status
from django_dbqueue.worker.agent import Recovery
from django_dbqueue.worker.channel import AbandonedClaims, Recovered, SignOff
from django_dbqueue.worker.child import Child, ExitedChild
from django_dbqueue.worker.children import Children
from django_dbqueue.worker.health import shown
from django_dbqueue.worker.options import Limits, Options
from django_dbqueue.worker.sacrifice import Sacrifice
from django_dbqueue.worker.served import parse_served
from django_dbqueue.worker.session import ReconnectBackoff, Session
from django_dbqueue.worker.shared_memory import (
    HELD_UP_SECONDS,
    SACRIFICIAL,
    SEPARATOR,
    ExitStatus,
    Role,
    Running,
    SharedMemory,
)
from django_dbqueue.worker.stack_dumps import StackDump
from tests.kit.agents import UUID, AgentHere
from tests.kit.forked_children import exited_children, fill
from tests.kit.jobs import fresh, overwrite, table, table_locked
from tests.kit.waiting import wait_until
from tests.queueapp.models import Mailed, Note

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]

SERVED = parse_served(["queueapp.Note"])


def job_of_a_dead_worker(model):
    gone = Worker.objects.create(
        uuid="d" * 32, pid=1, host="gone", serves=[model._meta.label_lower]
    )
    QuerySet(Worker).filter(pk=gone.pk).update(beat_at=DbNow(plus=-60))
    model.objects.create()
    [job] = claim(table(model), "default", 1, f"{gone.uuid}.1")
    return job


def test_others_can_see_what_it_serves():
    AgentHere().beat()
    assert Worker.objects.get().serves == ["queueapp.note"]


def test_the_jobs_of_a_dead_worker_come_back_whichever_table_it_served():
    job = job_of_a_dead_worker(Mailed)
    agent = AgentHere(beat_interval=0.01, worker_timeout=1)
    wait_until(lambda: agent.beat() and fresh(job).status == Status.READY)


@pytest.mark.parametrize(("served", "is_buried"), [(Note, True), (Mailed, False)])
def test_what_a_worker_is_told_holds_for_no_claim_of_a_table_that_it_does_not_serve(
    served, is_buried
):
    """It ends those, too, when their time is over: by the tables' own policies."""
    Note.objects.create()
    [job] = claim(table(), "default", 1, "a_loop_of_ones_own.1")
    overwrite(job, retry_at=DbNow(plus=-60))
    agent = AgentHere(served._meta.label, beat_interval=0.01, worker_timeout=1, tries=1)
    wait_until(lambda: agent.beat() and fresh(job).status != Status.CLAIMED)
    assert (fresh(job).status == Status.BURIED) == is_buried


def test_who_was_not_in_touch_for_long_calls_nobody_dead():
    job = job_of_a_dead_worker(Note)
    agent = AgentHere()
    for _ in range(3):
        agent.beat()
    assert fresh(job).status == Status.CLAIMED


def test_who_was_not_in_touch_for_long_ends_no_claim_whose_time_is_over():
    """Its worker may have had no database either, and needs a moment to say what became of it."""
    Note.objects.create()
    [job] = claim(table(), "default", 1, "w.1")
    overwrite(job, retry_at=DbNow(plus=-60))
    after_an_outage = AgentHere()
    for _ in range(3):
        after_an_outage.beat()
    assert fresh(job).status == Status.CLAIMED
    in_touch = AgentHere(beat_interval=0.01, worker_timeout=1)
    wait_until(lambda: in_touch.beat() and fresh(job).status == Status.READY)


def late(shared, coroutine, key, now):
    label = SEPARATOR.join(["default", "queueapp.note", key]).encode()
    shared.coroutine_slot(coroutine).start(label, now - 60, now - 1)


def test_who_blocks_the_loop_pays_and_not_those_that_are_late_by_it():
    now, shared = time.monotonic(), SharedMemory(1, coroutines=3)
    for number, key in enumerate(("blocks", "waits", "waits, too")):
        late(shared, number, key, now)
    shared.begin_turn(shared.coroutine_slot(0), now - 2 * HELD_UP_SECONDS)
    assert [job.key for job in shared.overdue(now)] == ["blocks"]
    shared.begin_turn(shared.coroutine_slot(0), now)
    assert len(shared.overdue(now)) == 3
    shared.end_turn()
    assert len(shared.overdue(now)) == 3


def test_a_thread_that_is_late_pays_next_to_who_blocks_the_loop():
    now, shared = time.monotonic(), SharedMemory(1, coroutines=2)
    label = SEPARATOR.join(["default", "queueapp.note", "in a thread"]).encode()
    shared.slot(0).start(label, now - 60, now - 1)
    late(shared, 0, "waits", now)
    late(shared, 1, "blocks", now)
    shared.begin_turn(shared.coroutine_slot(1), now - 2 * HELD_UP_SECONDS)
    assert [job.key for job in shared.overdue(now)] == ["in a thread", "blocks"]


def test_who_leaves_claims_behind_does_not_sign_off_so_that_others_miss_it():
    agent = AgentHere()
    agent.beat()
    Note.objects.create()
    [job] = claim(table(), "default", 1, "w.1-1")
    with table_locked(Note):
        agent.tell(AbandonedClaims("w.1-"))
        agent.tell(SignOff("for the test"))
        assert agent.turn() == []
    assert not is_signed_off()
    assert Recovered("w.1-") in agent.turn()
    assert is_signed_off()
    assert fresh(job).status == Status.READY


def is_signed_off():
    return Worker.objects.get().stopped_at is not None


def exited():
    return ExitedChild(Child(0, "w.1-", SharedMemory(1), StackDump(), -1, None), -9, [])


@pytest.mark.parametrize(
    ("exit_status", "successors"), [(ExitStatus.EMPTY, 0), (ExitStatus.ASKED, 1)]
)
def test_a_child_that_found_nothing_to_do_has_no_successor(exit_status, successors):
    def leave(stacks, prefix, shared, share, control, role):
        shared.exit_status = exit_status
        return 0

    children = Children([None], 1, "a" * 32, leave)
    fill(children)
    exited_children(children, 1)
    assert len(children.shares) == successors


@pytest.mark.parametrize("role", SACRIFICIAL)
def test_a_sacrificial_child_that_crashed_has_a_successor_for_those_that_waited_for_it(
    monkeypatch, role
):
    children = Children([None], 1, "a" * 32, lambda *_: 0)
    forked = []
    monkeypatch.setattr(children, "fork", lambda *given: forked.append(given[-1]))
    sacrifice = Sacrifice(children, Options(served=SERVED))
    sacrifice.fill(lambda shared: None)
    assert forked == []
    crashed = Child(0, "w.1-", SharedMemory(1), StackDump(), -1, None, role)
    sacrifice.ended(ExitedChild(crashed, -9, [Running("default", "", "1", 0.0, 0.0, 0)]))
    sacrifice.fill(lambda shared: None)
    assert forked == [role]


@pytest.mark.parametrize(("apart", "served"), [(("here", "there"), ["there"]), ((), None)])
def test_a_sacrificial_child_serves_the_database_alone_that_has_children_of_its_own(
    monkeypatch, apart, served
):
    """Else its suspects would wait for any other database that is away."""
    both = ["here", "there"]
    children = Children([None] * 2, 1, "a" * 32, lambda *_: 0, both, apart)
    forked = []
    monkeypatch.setattr(children, "fork", lambda *given: forked.append(given[-2]))
    sacrifice = Sacrifice(children, Options(served=SERVED))
    of_one = SharedMemory(1, served or both)
    crashed = Child(0, "w.s1-", of_one, StackDump(), -1, None, Role.SHARED)
    sacrifice.ended(ExitedChild(crashed, -9, [Running("there", "", "1", 0.0, 0.0, 0)]))
    sacrifice.fill(lambda shared: None)
    assert [list(aliases) for aliases in forked] == [served or both]


def test_a_crash_is_charged_to_no_job_of_another_table_with_the_same_key():
    ran, waited = Note.objects.create(), Mailed.objects.create(pk=Note.objects.get().pk)
    for model in (Note, Mailed):
        assert claim(table(model), "default", 1, "w.1-1")
    shared = SharedMemory(1)
    shared.slot(0).start(
        SEPARATOR.join(["default", table(Note).label, str(ran.pk)]).encode(), 1.0, 2.0
    )
    bury(shared, Note, Mailed)
    assert [(fresh(job).status, fresh(job).crashes) for job in (ran, waited)] == [
        (Status.READY, 1),
        (Status.READY, 0),
    ]


def test_all_jobs_of_a_dead_child_come_back_however_many(monkeypatch):
    monkeypatch.setattr(held, "CHUNK", 2)
    Note.objects.bulk_create([Note() for _ in range(5)])
    assert len(claim(table(), "default", 5, "w.1-1")) == 5
    bury(SharedMemory(1), Note)
    assert Note.objects.ready().count() == 5


def bury(shared, *models):
    recovery = Recovery([table(model) for model in models], Session({"default"}), events.reaped)
    child = exited().child
    recovery.waiting.append(AbandonedClaims.of(ExitedChild(child, -9, shared.running())))
    recovery.turn()


def test_what_a_dead_child_has_started_stays_counted():
    def start_two(stacks, prefix, shared, share, control, role):
        shared.slot(0).start(b"default\x1ftwo", 0.0, 1.0, jobs=2)
        return 0

    children = Children([None], 1, "a" * 32, start_two)
    fill(children)
    exited_children(children, 1)
    assert children.jobs == 2


def test_of_a_batch_too_long_to_be_shown_whole_jobs_are_shown():
    shared = SharedMemory(1)
    keys = [str(10**12 + number) for number in range(3000)]
    shared.slot(0).start(
        SEPARATOR.join(["default", "queueapp.batch", *keys]).encode(), 1.0, 2.0, 3000
    )
    known = [job.key for job in shared.running()]
    assert len(known) > 1000
    assert known == keys[: len(known)]


def test_a_workers_row_says_for_how_long_a_job_runs_and_may_run():
    shared, now = SharedMemory(1), time.monotonic()
    label = SEPARATOR.join(["default", "queueapp.note", "7"])
    shared.slot(0).start(label.encode(), now - 20, now + 40)
    [job] = shown(shared)
    assert (job["job"], job["limit"]) == ("queueapp.note 7", 60.0)
    assert job["seconds"] != 0


@pytest.mark.parametrize(("most", "processes"), [(10, 3), (2, 3), (9, 3), (1, 1)])
def test_the_children_may_run_as_many_jobs_together_as_the_worker_may(most, processes):
    limits = Limits(Options(served=SERVED, max_jobs=most, processes=processes))
    assert sum(limits.shares()) == most
    assert len(limits.shares()) == min(most, processes)


def test_a_worker_that_has_reached_a_limit_exits_with_12():
    limits = Limits(Options(served=SERVED, max_time=0.001))
    assert wait_until(lambda: limits.reached(0)).code == 12
    limits = Limits(Options(served=SERVED, max_memory=100))
    assert limits.reached(99 * 2**20) is None
    assert limits.reached(101 * 2**20).code == 12


def test_a_worker_that_was_asked_to_drain_goes_on_when_it_is_asked_to():
    agent = AgentHere()
    heard = []
    for ask in (request_drain, request_resume, request_drain):
        agent.beat()
        ask(UUID)
        [beat] = agent.beat()
        heard.append(beat.drain_requested)
    assert heard == [True, False, True]


def test_after_an_outage_nobody_waits_for_long_however_late_a_worker_counts_as_dead(settings):
    settings.DBQUEUE = {"WORKER_TIMEOUT": 600}
    backoff = ReconnectBackoff("trying")
    assert max(backoff.failed(OperationalError("away")) for _ in range(20)) <= 3
