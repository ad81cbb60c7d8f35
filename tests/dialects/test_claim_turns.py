"""MariaDB and MySQL: claims that have met with others take turns, where that helps."""

import threading
from contextlib import closing, contextmanager, suppress

import pytest
from django.db import DatabaseError, NotSupportedError, OperationalError, connection

from django_dbqueue.dialects import claim_turns
from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.lifecycle.table import table_of
from tests.kit.connections import other_connection
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.skipif(connection.vendor != "mysql", reason="others look and write in one"),
]
LARGE = 50


@pytest.fixture
def asked():
    """The named locks that this thread asks the server for, and gives back."""
    names = []

    def note(execute, sql, params, many, context):
        if "_LOCK(" in sql:
            names.append((sql.split("_LOCK(")[0].split()[-1], params[0]))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield names


@contextmanager
def at_the_update(then):
    """Something happens between the look of a claim and its write."""

    def call_first(execute, sql, params, many, context):
        if sql.startswith("UPDATE") and "dequeued_time" in sql:
            then()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(call_first):
        yield


def meet_others(found=LARGE):
    table = table_of(Note, "default")
    vars(table.dialect)["turns"].note((table.name, "default"), found, conflict=True)


def keys_of(limit=LARGE, owner="me.1"):
    return [job.pk for job in claim(table_of(Note, "default"), "default", limit, owner)]


def enqueue(count):
    Note.objects.bulk_create(Note() for _ in range(count))
    return list(Note.objects.order_by("pk").values_list("pk", flat=True))


def is_free(name):
    with connection.cursor() as cursor:
        cursor.execute("SELECT IS_FREE_LOCK(%s)", [name])
        return cursor.fetchone() == (1,)


def somebody_waits(cursor):
    cursor.execute(
        "SELECT COUNT(*) FROM information_schema.processlist "
        "WHERE state = 'User lock' AND db = DATABASE()"
    )
    return cursor.fetchone() != (0,)


@pytest.fixture
def patient(monkeypatch):
    """A busy machine may take more than a second to let a turn end."""
    monkeypatch.setattr(claim_turns, "TURN_SECONDS", 60)


def test_who_has_met_with_others_waits_for_their_claims_and_gets_what_comes_next(patient):
    keys, second = enqueue(2 * LARGE), []

    def claim_next():
        meet_others()
        second.extend(keys_of(owner="me.2"))
        connection.close()

    other = threading.Thread(target=claim_next)

    def let_the_other_wait():
        other.start()
        with closing(other_connection()) as own, own.cursor() as cursor:
            wait_until(lambda: somebody_waits(cursor))

    meet_others()
    with at_the_update(let_the_other_wait):
        first = keys_of(owner="me.1")
    other.join(60)
    assert (first, second) == (keys[:LARGE], keys[LARGE:])


def test_who_has_met_nobody_and_who_claims_or_finds_little_asks_for_no_turn(asked):
    enqueue(2 * LARGE)
    assert len(keys_of(limit=1)) == 1
    meet_others()
    assert len(keys_of(limit=LARGE - 1)) == LARGE - 1
    meet_others(found=LARGE - 1)
    assert len(keys_of()) == LARGE
    assert asked == []


def test_a_turn_is_over_after_a_claim_of_jobs_and_one_of_nothing(asked):
    keys = enqueue(LARGE)
    for expected in (keys, []):
        meet_others()
        assert keys_of() == expected
    assert [verb for verb, _ in asked] == ["IS_FREE", "RELEASE"] * 2
    assert is_free(asked[0][1])


@pytest.mark.parametrize("refused", ["GET_LOCK", "RELEASE_LOCK"])
def test_a_server_that_refuses_locks_keeps_nobody_from_claiming(refused):
    enqueue(2 * LARGE)

    def refuse(execute, sql, params, many, context):
        if refused in sql:
            raise NotSupportedError(1235, "GET_LOCK in cluster (WSREP_ON=ON)")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(refuse):
        for owner in ("me.1", "me.2"):
            meet_others()
            with suppress(DatabaseError):
                keys_of(owner=owner)
            # Where the answer is lost with the session, they are given back later.
            assert Note.objects.filter(owner=owner).count() == LARGE


def test_the_nodes_of_a_cluster_take_no_turns(asked, monkeypatch):
    enqueue(LARGE)
    monkeypatch.setattr(type(table_of(Note, "default").dialect), "is_node", True)
    meet_others()
    assert len(keys_of()) == LARGE
    assert asked == []


def test_a_turn_is_over_after_a_claim_that_failed(asked):
    enqueue(LARGE)
    meet_others()

    def fail():
        raise OperationalError(1234, "no idea")

    with at_the_update(fail), pytest.raises(OperationalError, match="no idea"):
        keys_of()
    assert [verb for verb, _ in asked] == ["IS_FREE", "RELEASE"]
    assert is_free(asked[0][1])


def test_a_claim_whose_turn_does_not_come_goes_on_and_the_next_ones_do_not_wait(asked):
    enqueue(3 * LARGE)
    meet_others()
    keys_of()
    with closing(other_connection()) as other, other.cursor() as cursor:
        cursor.execute("SELECT GET_LOCK(%s, 0)", [asked[0][1]])
        del asked[:]
        assert len(keys_of(owner="me.2")) == LARGE
        assert [verb for verb, _ in asked] == ["IS_FREE"]
        meet_others()
        assert len(keys_of(owner="me.3")) == LARGE
    assert len(asked) == 1


def test_where_a_proxy_gives_the_session_to_others_no_turns_are_taken(asked):
    enqueue(2 * LARGE)
    meet_others()

    def forget_it():
        with connection.cursor() as cursor:
            cursor.execute("DO RELEASE_LOCK(%s)", [asked[0][1]])

    with at_the_update(forget_it):
        assert len(keys_of()) == LARGE
    del asked[:]
    meet_others()
    assert len(keys_of(owner="me.2")) == LARGE
    assert asked == []


def test_a_turn_has_to_be_waited_for_as_long_as_others_claim(asked, patient):
    """What has met nobody in its claims may have done so while it waited."""
    enqueue(24 * LARGE)
    meet_others()
    for number in range(18):
        keys_of(owner=f"me.{number}")
    name, waits = asked[0][1], threading.Event()

    def hold():
        with closing(other_connection()) as own, own.cursor() as cursor:
            cursor.execute("SELECT GET_LOCK(%s, 0)", [name])
            waits.set()
            wait_until(lambda: somebody_waits(cursor))
            cursor.execute("DO RELEASE_LOCK(%s)", [name])

    holder = threading.Thread(target=hold)
    holder.start()
    waits.wait(60)
    keys_of(owner="me.18")
    holder.join(60)
    del asked[:]
    for number in range(19, 23):
        keys_of(owner=f"me.{number}")
    assert [verb for verb, _ in asked] == ["IS_FREE", "RELEASE"] * 4


def test_who_meets_nobody_for_a_while_takes_no_turns_any_more(asked):
    enqueue(40)
    meet_others()
    for number in range(40):
        keys_of(limit=1, owner=f"me.{number}")
    enqueue(LARGE)
    keys_of(owner="me.40")
    assert asked == []
