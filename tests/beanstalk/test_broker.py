"""What clients are answered, and what becomes of the rows, in the test's own process."""

import asyncio
import time

import pytest
from django.db import transaction
from django.db.models import QuerySet

from django_dbqueue.beanstalk import commands, replies, rows, state
from django_dbqueue.beanstalk.handlers import tube
from django_dbqueue.beanstalk.inbox import News
from django_dbqueue.beanstalk.listening import TCPAddress
from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.beanstalk.server import Limits, Server
from django_dbqueue.beanstalk.state import Client
from django_dbqueue.diagnose import explain
from django_dbqueue.exceptions import Bury
from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from django_dbqueue.testing import InlineWorker
from tests.kit.beanstalk_desk import Desk

pytestmark = pytest.mark.usefixtures("db_rows")
WORKED_OFF = []


@tube("letters")
def note_letter(job):
    WORKED_OFF.append(bytes(job.body))


@pytest.fixture
def desk():
    return Desk()


def states():
    return {row.pk: row.status for row in TubeJob.objects.all()}


def test_what_is_put_is_a_row_of_the_tube(desk):
    body = bytes(range(256))
    key = desk.put(desk.client("letters"), body, priority=4294967295, delay=4294967295, ttr=0)
    row = TubeJob.objects.get()
    assert (row.pk, bytes(row.body), row.queue, row.status) == (
        key,
        body,
        "letters",
        Status.DELAYED,
    )
    assert (row.priority, row.delay, row.ttr) == (4294967295, 4294967295, 1)
    assert row.retry_at.year > 2160


def test_the_most_urgent_of_all_watched_tubes_comes_first(desk):
    one, two = desk.client("a"), desk.client("b")
    keys = [desk.put(one, priority=5), desk.put(two, priority=3), desk.put(one, priority=3)]
    reader = desk.client("a")
    desk.ask(reader, commands.Watch("b"))
    assert [desk.reserve(reader) for _ in range(4)] == [keys[1], keys[2], keys[0], None]


def test_puts_of_one_turn_are_one_statement(desk, django_assert_max_num_queries):
    clients = [desk.client() for _ in range(50)]
    desk.turn()
    with django_assert_max_num_queries(10):
        for client in clients:
            desk.broker.submit(client, commands.Put(0, 0, 60, b"x"))
        desk.turn()
    assert TubeJob.objects.count() == 50
    assert len({desk.answers[client][-1] for client in clients}) == 50


def test_each_who_puts_is_told_the_id_of_its_own_job(desk):
    clients = [desk.client() for _ in range(3)]
    for number, client in enumerate(clients):
        desk.broker.submit(client, commands.Put(0, 0, 60, b"%d" % number))
    desk.turn()
    told = {desk.answers[client][-1]: b"%d" % n for n, client in enumerate(clients)}
    rows = {b"INSERTED %d\r\n" % row.pk: bytes(row.body) for row in TubeJob.objects.all()}
    assert told == rows


def test_a_delete_of_what_is_committed_at_that_moment_is_answered(desk, monkeypatch):
    client = desk.client()
    key = desk.put(client)
    monkeypatch.setattr(rows, "tubes_of", lambda table, keys: {})
    assert desk.ask(client, commands.Delete(key)) == replies.DELETED


def test_what_is_committed_is_answered_and_held_though_something_cannot_be_counted(
    desk, monkeypatch
):
    one, two = desk.client(), desk.client()
    key, other = desk.put(one), desk.put(one)
    monkeypatch.delattr(type(desk.broker.state), "note_deleted")
    desk.broker.submit(one, commands.Delete(key))
    desk.broker.submit(two, commands.ReserveJob(other))
    with pytest.raises(AttributeError):
        desk.broker.turn()
    assert desk.answers[one][-1] == replies.DELETED
    assert desk.answers[two][-1].startswith(b"RESERVED")
    assert [*two.holds] == [other]


def test_many_who_wait_get_a_job_each(desk):
    waiting = [desk.client("a") for _ in range(20)]
    for client in waiting:
        assert desk.ask(client, commands.Reserve()) is None
    keys = {desk.put(desk.client("a")) for _ in range(25)}
    got = [int(desk.answers[client][-1].split()[1]) for client in waiting]
    assert len(set(got)) == 20
    assert set(got) < keys


def test_two_who_delete_the_same_job_hear_of_it_once(desk):
    one, two = desk.client(), desk.client()
    key = desk.put(one)
    for client in (one, two):
        desk.broker.submit(client, commands.Delete(key))
    desk.turn()
    heard = [desk.answers[client][-1] for client in (one, two)]
    assert sorted(heard) == [replies.DELETED, replies.NOT_FOUND]


def test_what_a_client_holds_is_given_back_when_it_goes(desk):
    one, two = desk.client(), desk.client()
    key = desk.put(one)
    assert desk.reserve(one) == key
    assert desk.reserve(two) is None
    desk.broker.submit(one, News.GONE)
    assert desk.reserve(two) == key
    row = TubeJob.objects.get()
    assert (row.timeouts, row.releases, row.reserves) == (0, 0, 2)


def test_who_goes_with_a_reserve_on_its_way_holds_nothing(desk):
    one, two = desk.client(), desk.client()
    key = desk.put(one)
    for client in (two, one):  # of two that name a job the second waits for another turn
        desk.broker.submit(client, commands.ReserveJob(key))
    desk.broker.submit(two, News.GONE)
    desk.broker.submit(one, News.GONE)
    desk.turn()
    desk.turn()
    assert states() == {key: Status.READY}
    assert not desk.broker.state.holds


def test_a_job_whose_ttr_is_over_is_ready_and_counted(desk):
    one, two = desk.client(), desk.client()
    key = desk.put(one, ttr=1)
    assert desk.reserve(one) == key
    desk.ask(two, commands.Reserve())
    assert desk.hears(two, b"RESERVED").split()[1] == b"%d" % key
    assert TubeJob.objects.get().timeouts == 1
    assert desk.ask(one, commands.Touch(key)) == replies.NOT_FOUND
    assert desk.ask(one, commands.Delete(key)) == replies.NOT_FOUND


def test_who_waits_is_told_of_the_last_second(desk):
    client = desk.client()
    desk.put(client, ttr=2)
    desk.reserve(client)
    assert desk.ask(client, commands.Reserve()) is None
    assert desk.hears(client, replies.DEADLINE_SOON)


def test_a_claim_is_another_servers_until_it_ends(desk):
    other = Desk()
    one, two = desk.client(), other.client()
    key = desk.put(one)
    assert desk.reserve(one) == key
    assert other.reserve(two) is None
    for command in (commands.Delete(key), commands.Touch(key), commands.Release(key, 0, 0)):
        assert other.ask(two, command) == replies.NOT_FOUND
    assert desk.ask(one, commands.Release(key, 0, 0)) == replies.RELEASED
    assert other.reserve(two) == key


def test_who_misses_a_job_gets_the_next_one_and_no_timeout(desk, monkeypatch):
    monkeypatch.setattr(state, "MISSED_SECONDS", 60.0)  # however slow the machine is
    client = desk.client()
    first, second = desk.put(client), desk.put(client)
    really_ready = rows.ready

    def ready(table, limits):
        found = really_ready(table, limits)
        TubeJob.objects.filter(pk=first).delete()  # somebody is faster
        return found

    monkeypatch.setattr(rows, "ready", ready)
    assert desk.ask(client, commands.ReserveWithTimeout(0)) is None
    assert desk.hears(client, b"RESERVED %d " % second)
    assert desk.ask(client, commands.ReserveWithTimeout(0)) == replies.TIMED_OUT


def test_a_client_gets_what_django_enqueues_once_it_is_committed(desk):
    client = desk.client("letters")
    with transaction.atomic():
        made = TubeJob.objects.enqueue(queue="letters", body=b"from Django")
    try:
        with transaction.atomic():
            TubeJob.objects.enqueue(queue="letters", body=b"taken back")
            raise InterruptedError
    except InterruptedError:
        pass
    answer = desk.ask(client, commands.ReserveWithTimeout(0))
    assert answer == b"RESERVED %d 11\r\nfrom Django\r\n" % made.job.pk
    assert desk.reserve(client) is None


def test_nobody_gets_what_has_expired(desk):
    late, later, good = (TubeJob.objects.enqueue(body=b"x").job for _ in range(3))
    some = QuerySet(TubeJob).filter(pk__in=[late.pk, later.pk])
    some.update(expires_at=DbNow(plus=-50))
    reader = desk.client()
    assert desk.ask(reader, commands.ReserveJob(late.pk)) == replies.NOT_FOUND
    assert desk.ask(reader, commands.ReserveJob(late.pk)) == replies.NOT_FOUND
    assert desk.ask(reader, commands.Peek(late.pk)) == replies.NOT_FOUND
    assert desk.ask(reader, commands.Reserve()) is None
    desk.turn()
    assert desk.answers[reader][-1] == b"RESERVED %d 1\r\nx\r\n" % good.pk
    assert states() == {late.pk: Status.DONE, later.pk: Status.DONE, good.pk: Status.CLAIMED}


def test_a_worker_works_off_what_a_client_has_put(desk):
    client = desk.client("letters")
    desk.put(client, b"\0\xff")
    desk.put(desk.client("nobodys"), b"left")
    WORKED_OFF.clear()
    with InlineWorker("dbqueue_beanstalk.tubejob") as worker:
        worker.run()
    assert WORKED_OFF == [b"\0\xff"]
    assert [row.queue for row in TubeJob.objects.exclude(status=Status.DONE)] == ["nobodys"]


def test_of_a_tube_without_a_function_it_is_told_that_workers_leave_it_alone():
    Worker.objects.create(uuid="ab" * 16, serves=["dbqueue_beanstalk.tubejob"], pid=1)
    told = "workers leave them alone"
    for queue, is_told in (("letters", False), ("nobodys", True)):
        job = TubeJob.objects.create(queue=queue)
        found = explain(table_of(TubeJob, "default"), job.pk)
        assert (told in " ".join(found.sentences)) == is_told


def test_nobody_is_told_to_start_a_worker_for_a_tube_without_a_function():
    job = TubeJob.objects.create(queue="nobodys")
    row = {"serves": ["dbqueue_beanstalk.tubejob"], "host": "web1"}

    def told():
        return " ".join(explain(table_of(TubeJob, "default"), job.pk).sentences)

    assert "Start one" not in told()
    Worker.objects.create(uuid="ab" * 16, pid=1, pool={"slots": 4}, **row)
    assert "serves its queue" not in told()
    Worker.objects.create(uuid="cd" * 16, pid=2, drain_requested_at=DbNow(), **row)
    assert "Worker web1 2 (cdcdcdcd) was asked to drain" in told()
    Worker.objects.create(uuid="ef" * 16, pid=3, **row)
    assert "drain" not in told()


def test_queues_that_are_no_tubes_make_no_nonsense_of_lists_and_statistics(desk):
    reader = desk.client("a")
    job = TubeJob.objects.enqueue(queue='new: "mail"', body=b"x").job
    listed = desk.ask(reader, commands.ListTubes())
    assert listed.splitlines()[1:-1] == [b"---", b"- default", b"- a", b'- "new: \\"mail\\""']
    assert b'\ntube: "new: \\"mail\\""\n' in desk.ask(reader, commands.StatsJob(job.pk))


def test_a_pause_of_django_holds_up_clients_and_a_clients_pause_workers(desk):
    client = desk.client("letters")
    key = desk.put(client)
    TubeJob.objects.pause("letters")
    desk.broker._refresh_at = 0.0
    assert desk.reserve(client) is None
    TubeJob.objects.resume("letters")
    desk.broker._refresh_at = 0.0
    assert desk.reserve(client) == key
    desk.ask(client, commands.Release(key, 0, 0))
    assert desk.ask(client, commands.PauseTube("letters", 60)) == replies.PAUSED
    WORKED_OFF.clear()
    with InlineWorker("dbqueue_beanstalk.tubejob") as worker:
        worker.run()
    assert not WORKED_OFF
    assert desk.ask(client, commands.PauseTube("letters", 0)) == replies.PAUSED
    assert desk.reserve(client) == key


def test_a_kick_of_more_jobs_than_a_transaction_holds_counts_all(desk):
    TubeJob.objects.enqueue_many([{"body": b"x"}] * 1100, queue="a")
    TubeJob.objects.bury()
    client = desk.client("a")
    assert desk.ask(client, commands.Kick(1050)) == b"KICKED 1050\r\n"
    assert TubeJob.objects.filter(status=Status.BURIED).count() == 50


def test_ids_beyond_the_tables_are_not_found(desk):
    client = desk.client()
    for key in (2**63, 2**64 - 1):
        for command in (
            *(commands.Delete(key), commands.ReserveJob(key), commands.Peek(key)),
            *(commands.KickJob(key), commands.Touch(key), commands.Bury(key, 0)),
            *(commands.Release(key, 0, 0), commands.StatsJob(key)),
        ):
            assert desk.ask(client, command) == replies.NOT_FOUND, command


def test_a_waiter_ends_when_its_time_is_over(desk):
    client = desk.client("a")
    before = time.monotonic()
    desk.ask(client, commands.ReserveWithTimeout(1))
    assert desk.hears(client, replies.TIMED_OUT)
    assert time.monotonic() - before >= 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_broker_that_fails_says_so_and_gives_back_what_is_held():
    """Else clients would wait for ever for a server that accepts them."""
    made = TubeJob.objects.enqueue(body=b"x").job

    async def fail():
        server = Server("default", 65535, Limits())
        address = TCPAddress("127.0.0.1", 0)
        await server.start(address)
        reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
        writer.write(b"reserve\r\n")
        assert await reader.readline() == b"RESERVED %d 1\r\n" % made.pk
        server.broker.submit(Client(), "what nobody knows")
        await asyncio.wait_for(server.is_over.wait(), 30)
        await server.stop()

    asyncio.run(fail())
    assert states() == {made.pk: Status.READY}


def by_a_person(keys):
    TubeJob.objects.filter(pk__in=keys).bury()


def by_a_worker(keys):
    for job in TubeJob.objects.claim(limit=len(keys)):
        job.fail(Bury())


@pytest.mark.parametrize("bury", [by_a_person, by_a_worker])
def test_what_others_bury_is_kicked_after_what_was_buried_before(desk, bury):
    client = desk.client()
    first, second, third = (desk.put(client) for _ in range(3))
    desk.ask(client, commands.ReserveJob(second))
    desk.ask(client, commands.Bury(second, 0))
    bury([first])
    desk.ask(client, commands.ReserveJob(third))
    desk.ask(client, commands.Bury(third, 0))
    kicked = []
    for _ in range(3):
        kicked.append(int(desk.ask(client, commands.PeekBuried()).split()[1]))
        desk.ask(client, commands.Kick(1))
    assert kicked == [second, first, third]
