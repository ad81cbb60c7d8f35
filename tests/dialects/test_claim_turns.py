"""MariaDB and MySQL: claims that have met with others take turns, where that helps."""

import threading
from contextlib import closing, contextmanager

import pytest
from django.db import OperationalError, connection

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


def meet_others():
    vars(table_of(Note, "default").dialect)["turns"].note(
        (table_of(Note, "default").name, "default"), conflict=True
    )


def keys_of(limit=LARGE, owner="me.1"):
    return [job.pk for job in claim(table_of(Note, "default"), "default", limit, owner)]


def enqueue(count):
    Note.objects.bulk_create(Note() for _ in range(count))
    return list(Note.objects.order_by("pk").values_list("pk", flat=True))


def is_free(name):
    with connection.cursor() as cursor:
        cursor.execute("SELECT IS_FREE_LOCK(%s)", [name])
        return cursor.fetchone() == (1,)


def test_who_has_met_with_others_waits_for_their_claims_and_gets_what_comes_next():
    keys, second = enqueue(2 * LARGE), []

    def claim_next():
        meet_others()
        second.extend(keys_of(owner="me.2"))
        connection.close()

    other = threading.Thread(target=claim_next)

    def let_the_other_wait():
        other.start()
        with closing(other_connection()) as own, own.cursor() as cursor:
            sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'"
            wait_until(lambda: cursor.execute(sql) and cursor.fetchone() != (0,))

    meet_others()
    with at_the_update(let_the_other_wait):
        first = keys_of(owner="me.1")
    other.join(60)
    assert (first, second) == (keys[:LARGE], keys[LARGE:])


def test_who_has_met_nobody_and_who_claims_little_asks_for_no_turn(asked):
    enqueue(LARGE)
    assert len(keys_of(limit=1)) == 1
    meet_others()
    assert len(keys_of(limit=LARGE - 1)) == LARGE - 1
    assert asked == []


def test_a_turn_is_over_after_a_claim_of_jobs_and_one_of_nothing(asked):
    keys = enqueue(LARGE)
    for expected in (keys, []):
        meet_others()
        assert keys_of() == expected
    assert [verb for verb, _ in asked] == ["IS_FREE", "RELEASE"] * 2
    assert is_free(asked[0][1])


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


def test_who_meets_nobody_for_a_while_takes_no_turns_any_more(asked):
    enqueue(40)
    meet_others()
    for number in range(40):
        keys_of(limit=1, owner=f"me.{number}")
    enqueue(LARGE)
    keys_of(owner="me.40")
    assert asked == []
