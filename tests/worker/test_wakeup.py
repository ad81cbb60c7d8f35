"""Idle workers hear of new jobs: of commits on SQLite, of notifications on PostgreSQL."""

import datetime
import gc
import threading
import time
import weakref
from contextlib import suppress

import pytest
from django.db import OperationalError, connection, connections, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_dbqueue.dialects import dialect_of, postgresql, postgresql_notify
from django_dbqueue.worker.buffer import Buffer
from django_dbqueue.worker.claimer import Claimer
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.served import parse_served
from django_dbqueue.worker.shared_memory import SharedMemory
from django_dbqueue.worker.wakeup import LOOKS_A_SECOND, LOOKS_MAX, Wakeup
from tests.kit.connections import other_connection
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

LATER = timezone.now() + datetime.timedelta(hours=1)
LONG = 30.0  # seconds; what ends such a sleep is no time-out
notifies = pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL notifies")
tells = pytest.mark.skipif(
    not hasattr(connection.features, "has_select_for_update") or connection.vendor == "mysql",
    reason="this database tells nobody of commits",
)


def forget_notification():
    dialect_of(connections["default"]).notifier.notified_at = float("-inf")  # type: ignore[attr-defined]


def in_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.fixture
def listener():
    """A dialect on a connection of its own, that listens."""
    own = other_connection()
    own.ensure_connection()
    dialect = dialect_of(own)
    dialect.listen()
    dialect.has_news()
    yield dialect
    own.close()


def claimer_of(served):
    shared, bell = SharedMemory(1), Wakeup({"default"})
    shared.beat("default", time.monotonic(), 1)
    options = Options(served=parse_served([served]))
    return Claimer(options, "w.1-", Buffer(1), shared, bell, share=None, unwritten=lambda: 0)


def in_idle_claimer(sleep=None):
    """The thread of a claimer that has found nothing, and ends once it has claimed a job."""
    claimer, idle = claimer_of("queueapp.Note"), threading.Event()

    def work():
        while not len(claimer.buffer):
            seconds = claimer.turn()
            if claimer.is_idle:
                idle.set()
            claimer.sleep(seconds and (sleep or seconds))
        connections.close_all()

    thread = in_a_thread(work)
    assert idle.wait(LONG)
    return thread


def has_news(dialect):
    """With the answer of any statement comes what was notified before."""
    with dialect.connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return dialect.has_news()


def test_whoever_rings_first_or_in_between_ends_the_sleep():
    bell = Wakeup([])
    bell.notify()
    bell.notify()
    bell.sleep(LONG)
    started = time.monotonic()
    bell.sleep(0.05)
    assert time.monotonic() - started >= 0.05
    thread = in_a_thread(lambda: (time.sleep(0.05), bell.notify()))
    bell.sleep_until_news(LONG)
    thread.join()


@tells
def test_a_commit_of_another_connection_is_news_once(listener):
    assert not has_news(listener)
    Note.objects.create()
    wait_until(lambda: has_news(listener))
    assert not has_news(listener)


@tells
def test_what_is_rolled_back_is_no_news(listener):
    with transaction.atomic():
        Note.objects.create()
        assert not has_news(listener)
        transaction.set_rollback(True)
    assert not has_news(listener)


@notifies
@pytest.mark.parametrize(
    ("enqueue", "rings"),
    [
        (Note.objects.create, True),
        (lambda: Note.objects.bulk_create([Note(), Note()]), True),
        (lambda: Note.objects.enqueue(dedup_key="a"), True),
        (lambda: Note.objects.enqueue(delay=60), False),
        (lambda: Note.objects.enqueue_many([{}, {}]), True),
        (lambda: Note.objects.enqueue_many([{}], delay=60), False),
        (lambda: Note.objects.enqueue_many([{"retry_at": LATER}]), False),
        (lambda: Note.objects.enqueue_many([{"retry_at": None}, {"retry_at": LATER}]), True),
        (Note.objects.count, False),
    ],
)
def test_ready_jobs_ring_however_they_are_enqueued(listener, enqueue, rings):
    forget_notification()
    enqueue()
    assert has_news(listener) is rings


@notifies
@pytest.mark.parametrize("_", range(2))
def test_no_test_is_silent_since_another_one_has_notified(listener, long_silence_begins, _):
    Note.objects.create()
    assert has_news(listener)


@pytest.fixture
def long_silence_begins(monkeypatch):
    monkeypatch.setattr(postgresql_notify, "RECHECK_SECONDS", LONG)


@notifies
def test_a_notification_that_fails_after_the_commit_fails_nobody(caplog):
    """An error would have the caller enqueue the job once more."""
    forget_notification()

    def refuse(execute, sql, *rest):
        if sql.startswith("NOTIFY"):
            raise OperationalError("the server is being shut down")
        return execute(sql, *rest)

    with connection.execute_wrapper(refuse):
        Note.objects.create()
        assert "workers find them soon" in caplog.text
        with transaction.atomic():
            Note.objects.create()
    assert Note.objects.count() == 2


@notifies
def test_it_may_be_turned_off(monkeypatch, listener, long_silence):
    monkeypatch.setenv("DBQUEUE_NOTIFY", "0")
    with CaptureQueriesContext(connection) as statements:
        Note.objects.create()
        with transaction.atomic():
            Note.objects.create()
    assert not [one for one in statements if "NOTIFY" in one["sql"]]
    own = dialect_of(other_connection())
    own.listen()
    assert own.descriptor is None


@notifies
def test_psycopg2_hears_nothing_and_so_tells_nobody(monkeypatch, long_silence):
    monkeypatch.setattr(postgresql.PostgreSQL, "can_notify", staticmethod(lambda: False))
    with CaptureQueriesContext(connection) as statements:
        Note.objects.create()
    assert not [one for one in statements if "NOTIFY" in one["sql"]]


@notifies
def test_who_notified_is_forgotten_with_its_connection():
    own = other_connection()
    own.ensure_connection()
    dialect_of(own).notify()
    own.close()
    seen = weakref.ref(own)
    del own
    gc.collect()
    assert seen() is None


def notifications(work):
    """How many there are, and how many of them before the commit."""
    with CaptureQueriesContext(connection) as statements:
        work()
    sqls = [one["sql"] for one in statements]
    before = sqls[: sqls.index("COMMIT")] if "COMMIT" in sqls else sqls
    return tuple(sum("NOTIFY" in sql for sql in some) for some in (sqls, before))


@notifies
def test_a_transaction_notifies_once_however_much_it_enqueues_and_after_its_commit(long_silence):
    def enqueue():
        with transaction.atomic():
            for _ in range(3):
                Note.objects.create()
            transaction.on_commit(lambda: None)
            with transaction.atomic():
                Note.objects.enqueue()
            Note.objects.bulk_create([Note(), Note()])
            # Of ours there is one, too: else a thousand jobs had a thousand calls after the commit.
            assert len(connection.run_on_commit) == 2

    assert notifications(enqueue) == (1, 0)


@notifies
def test_what_a_savepoint_has_taken_back_silences_nothing_that_stays(long_silence):
    def enqueue():
        with transaction.atomic():
            transaction.on_commit(lambda: None)
            with suppress(ZeroDivisionError), transaction.atomic():
                Note.objects.create()
                raise ZeroDivisionError
            Note.objects.create()

    assert notifications(enqueue) == (1, 0)


@notifies
def test_who_takes_all_back_notifies_nobody(long_silence):
    def enqueue():
        with suppress(ZeroDivisionError), transaction.atomic():
            Note.objects.create()
            raise ZeroDivisionError

    assert notifications(enqueue) == (0, 0)


@notifies
def test_every_transaction_has_a_notification_of_its_own(listener):
    for _ in range(2):
        forget_notification()
        with transaction.atomic():
            Note.objects.create()
        wait_until(lambda: has_news(listener))


@notifies
def test_without_autocommit_too_every_transaction_notifies(listener):
    transaction.set_autocommit(False)
    try:
        for _ in range(2):
            Note.objects.create()
            connection.commit()
            wait_until(lambda: has_news(listener))
    finally:
        connection.rollback()
        transaction.set_autocommit(True)


@pytest.fixture
def long_silence(monkeypatch):
    monkeypatch.setattr(postgresql_notify, "RECHECK_SECONDS", LONG)
    forget_notification()
    yield
    forget_notification()


@notifies
def test_what_is_rolled_back_silences_nobody(listener, long_silence):
    with transaction.atomic():
        Note.objects.create()
        transaction.set_rollback(True)
    Note.objects.create()
    wait_until(lambda: has_news(listener))


@notifies
def test_of_commits_in_a_row_the_first_alone_notifies(long_silence):
    with CaptureQueriesContext(connection) as statements:
        for _ in range(3):
            Note.objects.create()
    assert sum("NOTIFY" in one["sql"] for one in statements) == 1


@notifies
def test_who_stalls_after_a_notification_is_not_silent_for_longer(listener):
    def stall(execute, sql, *rest):
        result = execute(sql, *rest)
        if sql.startswith("NOTIFY"):
            time.sleep(0.1)  # who was woken has looked once more by now
        return result

    forget_notification()
    with connection.execute_wrapper(stall):
        Note.objects.create()
        assert has_news(listener)
        Note.objects.create()
        assert has_news(listener)


def test_the_second_look_comes_as_soon_as_the_silence_is_over():
    bell = Wakeup([])
    bell._recheck_at = time.monotonic() + 0.005
    thread = in_a_thread(lambda: bell.sleep_until_news(LONG))
    thread.join(LONG / 2)
    assert not thread.is_alive()


@notifies
def test_news_that_are_for_others_again_and_again_are_looked_after_less_often():
    """Each worker hears of all jobs of the database, also of those of other tables."""
    claimer, looks = claimer_of("queueapp.Note:another"), []

    def work():
        claimer.turn()
        connections["default"].execute_wrappers.append(note)
        while not len(claimer.buffer):
            claimer.sleep(claimer.turn())
        connections.close_all()

    def note(execute, sql, *rest):
        if Note._meta.db_table in sql:
            looks.append(sql)
        return execute(sql, *rest)

    thread = in_a_thread(work)
    wait_until(lambda: looks)
    looks.clear()
    began = time.monotonic()
    for _ in range(300):
        forget_notification()
        Note.objects.create()
    seconds, found = time.monotonic() - began, len(looks)
    Note.objects.create(queue="another")
    thread.join()
    assert found <= LOOKS_MAX + 2 * LOOKS_A_SECOND * seconds + 10
    assert claimer.wakeup._looks_left == LOOKS_MAX


def test_looks_that_find_nothing_get_seldom_and_one_that_finds_work_ends_that(monkeypatch):
    now, naps, bell = [1000.0], [], Wakeup([])
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(bell, "sleep", lambda seconds: naps.append(seconds) or nap(seconds))

    def nap(seconds):
        now[0] += seconds

    def looks_in(seconds):
        end, count = now[0] + seconds, 0
        while now[0] < end:
            bell.hesitate()
            nap(0.001)
            count += 1
        return count

    assert LOOKS_MAX <= looks_in(10) <= LOOKS_MAX + 10 * 2 * LOOKS_A_SECOND
    assert max(naps) <= 0.05
    bell.found_work()
    naps.clear()
    for _ in range(LOOKS_MAX):
        bell.hesitate()
    assert naps == []
    bell.hesitate()
    nap(60)
    bell.hesitate()
    assert len(naps) == 1


def test_the_silence_is_over_no_sooner_for_a_thread_that_was_held_up_before_it_heard(monkeypatch):
    """Who notifies is silent from the notification on, which may come while it asks for news."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    class HeldUp:
        silent_after_news = 5.0

        def has_news(self):
            now[0] += 3.0
            return now[0] < 1004

    bell, dialects = Wakeup([]), [HeldUp()]
    assert bell._has_news(dialects)  # type: ignore[arg-type]
    assert not bell._has_news(dialects)  # type: ignore[arg-type]
    assert now[0] == 1006
    assert not bell._has_news([])
    now[0] += 2.0
    assert bell._has_news([])


@tells
def test_an_idle_claimer_wakes_for_a_new_job_and_not_before_its_commit():
    thread = in_idle_claimer(sleep=LONG)
    with transaction.atomic():
        Note.objects.create()
        thread.join(0.2)
        assert thread.is_alive()
    thread.join(LONG / 2)
    assert not thread.is_alive()


@tells
def test_after_news_it_looks_once_more_where_notifications_are_spared():
    quiet, answers = threading.Event(), []

    def sleep():
        connections["default"].ensure_connection()
        dialect_of(connections["default"]).listen()
        bell = Wakeup({"default"})
        while bell.sleep_until_news(0.2):
            pass
        quiet.set()
        answers.extend(bell.sleep_until_news(seconds) for seconds in (LONG, 0.3, 0.3))
        connections.close_all()

    thread = in_a_thread(sleep)
    assert quiet.wait(LONG)
    Note.objects.create()
    thread.join(LONG / 2)
    assert answers == [True, connection.vendor == "postgresql", False]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite is looked at")
def test_only_work_keeps_it_from_dozing_off_not_every_commit(monkeypatch):
    looks = []
    dialect = dialect_of(connections["default"])
    monkeypatch.setattr(dialect, "has_news", lambda: looks.append(0) or len(looks) % 2 == 0)
    bell = Wakeup({"default"})
    bell._has_news([dialect])

    def looks_in(seconds):
        looks.clear()
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            bell.sleep_until_news(left)
        return len(looks)

    bell._notified_at -= 3600
    drowsy = looks_in(0.5)
    bell.notify()
    assert drowsy < 12 < looks_in(0.5)


@notifies
def test_what_came_in_with_another_answer_is_heard_before_the_sleep():
    quiet, answers = threading.Event(), []

    def sleep():
        own = connections["default"]
        own.ensure_connection()
        dialect = dialect_of(own)
        dialect.listen()
        dialect.has_news()
        quiet.set()
        wait_until(lambda: has_come_in(dialect))
        answers.append(Wakeup({"default"}).sleep_until_news(LONG))
        own.close()

    thread = in_a_thread(sleep)
    assert quiet.wait(LONG)
    Note.objects.create()
    thread.join(LONG / 2)
    assert answers == [True]


def has_come_in(dialect):
    with dialect.connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return dialect._has_news


@notifies
def test_a_sleeper_survives_the_end_of_its_connection():
    thread = in_idle_claimer()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid != pg_backend_pid()"
        )
    Note.objects.create()
    thread.join(LONG)
    assert not thread.is_alive()


def test_no_ring_is_lost_where_the_sleeper_is_quicker_than_the_ringer(monkeypatch):
    bell, woken = Wakeup([]), []
    set_pipe = bell._wakeup.set

    def set_slowly():
        set_pipe()
        time.sleep(0.3)  # the sleeper wakes, does its work and sleeps again

    def sleep():
        for _ in range(2):
            bell.sleep_until_news(LONG)
            woken.append(time.monotonic())

    thread = in_a_thread(sleep)
    monkeypatch.setattr(bell._wakeup, "set", set_slowly)
    bell.notify()
    assert len(woken) == 1
    bell.notify()
    thread.join(LONG / 2)
    assert len(woken) == 2


def test_a_ring_whose_flag_was_seen_early_does_not_keep_it_awake(monkeypatch):
    bell, looks = Wakeup([]), []
    bell._wakeup.set()
    has_news = bell._has_news
    monkeypatch.setattr(bell, "_has_news", lambda dialects: looks.append(0) or has_news(dialects))
    bell.sleep_until_news(0.2)
    assert len(looks) < 10
