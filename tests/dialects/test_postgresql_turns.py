"""PostgreSQL: large claims take turns, on connections of our own."""

import re
import threading
from contextlib import closing

import pytest
from django.db import DataError, InterfaceError, OperationalError, connection, connections

from django_dbqueue.dialects import postgresql_turns
from django_dbqueue.dialects.postgresql import PostgreSQL
from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.worker.session import Session
from tests.kit.connections import other_connection
from tests.kit.jobs import table
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="it looks and writes in one"),
]
LARGE = 50


@pytest.fixture
def own_session():
    connection.close()
    Session({"default"}).prepare()
    yield
    connection.close()


@pytest.fixture
def asked():
    """The locks that this thread asks the server for."""
    keys = []

    def note(execute, sql, params, many, context):
        keys.extend(int(key) for key in re.findall(r"pg_advisory_lock\((-?\d+)\)", sql))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield keys


def keys_of(limit=LARGE, owner="me.1", queue="default"):
    return [job.pk for job in claim(table(), queue, limit, owner)]


def enqueue(count, **columns):
    return [job.pk for job in Note.objects.bulk_create(Note(**columns) for _ in range(count))]


def answer(one, sql):
    with one.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def is_free(key):
    with closing(other_connection()) as other:
        return answer(other, f"SELECT pg_try_advisory_lock({key})")


def somebody_waits(other):
    sql = (
        "SELECT COUNT(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database "
        "WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()"
    )
    return answer(other, sql) > 0


@pytest.fixture
def patient(monkeypatch):
    """A busy machine may take more than a second to let a turn end."""
    monkeypatch.setattr(postgresql_turns, "TURN", "60s")


def in_a_thread(code):
    """Started, on a connection of its own."""

    def run():
        Session({"default"}).prepare()
        code()
        connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def changed(before, after):
    """A wrapper: claims have something else in their statement."""

    def change(execute, sql, params, many, context):
        return execute(sql.replace(before, after, 1), params, many, context)

    return connection.execute_wrapper(change)


def test_a_large_claim_waits_for_its_turn_and_gets_what_is_left_then(own_session, asked, patient):
    keys, found = enqueue(2 * LARGE), []
    assert keys_of() == keys[:LARGE]
    [key] = asked
    with closing(other_connection()) as other:
        answer(other, f"SELECT pg_advisory_lock({key})")
        waiting = in_a_thread(lambda: found.extend(keys_of(owner="me.2")))
        wait_until(lambda: somebody_waits(other))
        Note.objects.filter(pk=keys[LARGE]).delete()
    waiting.join(60)
    assert found == keys[LARGE + 1 :]


def test_a_turn_lasts_as_long_as_its_claim_writes(own_session, asked, patient):
    enqueue(2 * LARGE)
    keys_of()
    [key] = asked

    def claim_slowly():
        # It waits in the middle of its UPDATE.
        with changed(
            "SET status = ", "SET status = 0 * (pg_advisory_xact_lock(1) IS NULL)::int + "
        ):
            keys_of(owner="me.2")

    with closing(other_connection()) as other:
        answer(other, "SELECT pg_advisory_lock(1)")
        claiming = in_a_thread(claim_slowly)
        wait_until(lambda: somebody_waits(other))
        assert not is_free(key)
    claiming.join(60)
    assert Note.objects.filter(owner="me.2").count() == LARGE
    assert is_free(key)


def test_a_turn_is_over_after_a_claim_of_jobs_and_one_of_nothing(own_session, asked):
    keys = enqueue(LARGE)
    for expected in (keys, []):
        assert keys_of() == expected
    assert len(asked) == 2
    assert is_free(asked[0])


def test_a_turn_is_over_after_a_claim_that_failed_and_the_next_ones_take_none(own_session, asked):
    enqueue(2 * LARGE)
    with changed("RETURNING", "RETURNING 1 / 0,"), pytest.raises(DataError, match="by zero"):
        keys_of()
    assert is_free(asked[0])
    assert len(keys_of()) == LARGE
    assert len(asked) == 1


def test_so_it_is_after_one_that_somebody_has_interrupted(own_session, asked):
    enqueue(2 * LARGE)

    def give_up(execute, sql, params, many, context):
        try:
            return execute(sql.replace("; UPDATE", "; SELECT 1 / 0; UPDATE"), params, many, context)
        except DataError:
            raise KeyboardInterrupt from None

    with connection.execute_wrapper(give_up), pytest.raises(KeyboardInterrupt):
        keys_of()
    assert is_free(asked[0])


def test_a_claim_whose_answer_is_lost_is_not_made_again(own_session, asked):
    """Who asked for it gives back what it may have taken."""
    enqueue(2 * LARGE)

    def lose(execute, sql, params, many, context):
        answered = execute(sql, params, many, context)
        if "dequeued_time" in sql:
            raise InterfaceError("the line is dead")
        return answered

    with connection.execute_wrapper(lose), pytest.raises(InterfaceError, match="is dead"):
        keys_of()
    connection.close()
    assert Note.objects.claimed().count() == LARGE


def test_a_claim_whose_turn_does_not_come_goes_on_and_the_next_ones_do_not_wait(own_session, asked):
    enqueue(3 * LARGE)
    keys_of()
    with closing(other_connection()) as other:
        answer(other, f"SELECT pg_advisory_lock({asked[0]})")
        assert len(keys_of(owner="me.2")) == LARGE
        assert len(keys_of(owner="me.3")) == LARGE
    assert len(asked) == 2


def test_a_server_that_refuses_locks_keeps_nobody_from_claiming(own_session, asked):
    enqueue(3 * LARGE)
    with changed("pg_advisory_lock", "nowhere.pg_advisory_lock"):
        for number in range(2):
            assert len(keys_of(owner=f"me.{number}")) == LARGE
        Session({"default"}).recover(OperationalError())
        Session({"default"}).prepare()
        assert len(keys_of(owner="me.3")) == LARGE
    assert len(asked) == 1


def test_locks_of_others_on_the_same_connection_are_left_alone(own_session, asked):
    enqueue(LARGE)
    answer(connection, "SELECT pg_advisory_lock(4711)")
    with changed("RETURNING", "RETURNING 1 / 0,"), pytest.raises(DataError, match="by zero"):
        keys_of()
    assert asked[0] == 4711
    assert is_free(asked[1])
    assert not is_free(4711)


def test_where_a_wrapper_reads_past_the_rows_no_other_ones_are_taken_for_them(own_session):
    enqueue(LARGE)

    def read_on(execute, sql, params, many, context):
        answered = execute(sql, params, many, context)
        while context["cursor"].nextset():
            pass
        return answered

    with connection.execute_wrapper(read_on), pytest.raises(OperationalError, match="read past"):
        keys_of()
    assert Note.objects.claimed().count() == LARGE
    assert not Note.objects.buried().exists()


def test_each_queue_has_turns_of_its_own(own_session, asked):
    for queue in ("one", "other"):
        enqueue(LARGE, queue=queue)
        assert len(keys_of(queue=queue)) == LARGE
    assert asked[0] != asked[1]


def test_a_small_claim_takes_no_turn(own_session, asked):
    enqueue(LARGE)
    assert len(keys_of(limit=LARGE - 1)) == LARGE - 1
    assert asked == []


def test_nor_does_one_on_a_connection_of_users(asked):
    enqueue(2 * LARGE)
    assert len(keys_of()) == LARGE
    Session({"default"}).prepare()
    connection.close()
    assert len(keys_of()) == LARGE
    assert asked == []


def test_nor_does_one_behind_a_pooler_that_is_found_out_late(own_session, asked, monkeypatch):
    enqueue(LARGE)
    dialect = table().dialect
    with monkeypatch.context() as patched:
        patched.setattr(PostgreSQL, "_set_unless_pooled", lambda *_, **__: "SELECT 1 WHERE false")
        dialect.keep_to_indexes()
    assert len(keys_of()) == LARGE
    assert asked == []
    connection.close()
    del connections["default"]


@pytest.mark.parametrize("option", ["server_side_binding", "cursor_factory"])
def test_nor_does_one_whose_messages_hold_one_statement(asked, option, monkeypatch):
    import psycopg

    enqueue(LARGE)
    own = connections["default"]
    own.close()
    given = {"server_side_binding": True, "cursor_factory": psycopg.Cursor}[option]
    options = {**own.settings_dict["OPTIONS"], option: given}
    monkeypatch.setattr(own, "settings_dict", {**own.settings_dict, "OPTIONS": options})
    Session({"default"}).prepare()
    assert len(keys_of()) == LARGE
    assert asked == []
    own.close()
