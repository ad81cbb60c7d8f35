"""Three nodes of a Galera cluster, all of them writing: what a job and its claim are there."""

import threading
from collections import Counter
from contextlib import suppress
from functools import partial

import pytest
from django.core.checks import run_checks
from django.db import Error, OperationalError, connections, transaction

from django_dbqueue.dialects import ErrorKind, dialect_of
from django_dbqueue.exceptions import QueueFull
from django_dbqueue.lifecycle import holder, reap
from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.states import Status
from tests.kit.bounds import limits
from tests.kit.clusters import alias_to
from tests.kit.galera import NODES
from tests.kit.jobs import start_all
from tests.kit.waiting import wait_until
from tests.queueapp.keyed import Shared
from tests.queueapp.models import Note

pytestmark = [pytest.mark.cluster, pytest.mark.process, pytest.mark.any_database]
FIRST, SECOND, THIRD = NODES
KEYS = 100
ROUNDS = 200


def on(node, work):
    """For a thread, which closes its connection."""

    def run():
        try:
            return work()
        finally:
            connections[node].close()

    return run


def ready(count=ROUNDS):
    Note.objects.using(FIRST).bulk_create([Note() for _ in range(count)])


def claim_on(node, owner, limit=1):
    return [job.pk for job in claim(table_of(Note, node), "default", limit, owner)]


def held_by(node, key):
    dialect_of(connections[node]).catch_up()
    return Note.objects.using(node).values_list("owner", "status").get(pk=key)


def test_twins_on_all_nodes_make_one_job(galera):
    def ask(node, key):
        return Note.objects.db_manager(node).enqueue(dedup_key=key).created

    for number in range(KEYS):
        key = f"k{number}"
        assert sum(start_all(*[on(node, partial(ask, node, key)) for node in NODES])) == 1
    assert Note.objects.using(FIRST).count() == KEYS


def errors_of(node, write, count=ROUNDS):
    found = Counter()
    for _ in range(count):
        try:
            write(node)
        except Error as error:
            found[str(error)] += 1
    return found


def create(node):
    Note.objects.using(node).create(text="x")


def create_in_transaction(node):
    with transaction.atomic(using=node):
        create(node)
        create(node)


@pytest.mark.parametrize("write", [create, create_in_transaction])
def test_jobs_without_a_key_do_not_conflict(galera, write):
    names = "wsrep_local_cert_failures", "wsrep_local_bf_aborts"
    before = [galera.status(name) for name in names]
    found = start_all(*[on(node, partial(errors_of, node, write)) for node in NODES])
    conflicts = [galera.status(n) - b for n, b in zip(names, before, strict=True)]
    print(f"\n{write.__name__}: errors {found}, {dict(zip(names, conflicts, strict=True))}")
    assert found == [Counter()] * len(NODES)
    assert conflicts == [0, 0]


def test_two_nodes_never_claim_the_same_job(galera):
    ready()

    def take(node):
        taken = []
        while keys := claim_on(node, f"{node}.{len(taken)}", 5):
            taken += keys
        return taken

    found = [key for keys in start_all(*[on(n, partial(take, n)) for n in NODES]) for key in keys]
    dialect_of(connections[FIRST]).catch_up()
    left = claim_on(FIRST, "the rest", ROUNDS)
    assert sorted(found + left) == sorted(Note.objects.using(FIRST).values_list("pk", flat=True))


VERBS = {
    "complete": lambda table, owner, key: holder.complete(table, owner, [key]),
    "release": lambda table, owner, key: holder.release(table, owner, [key]),
    "touch": lambda table, owner, key: holder.touch(table, owner, [key]),
    "move": lambda table, owner, key: holder.move(table, owner, [key], "elsewhere"),
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_claim_is_ended_on_another_node_which_may_not_have_seen_it(galera, verb):
    ready()
    looks = 0
    for number in range(ROUNDS):
        owner = f"w.{number}"
        [key] = claim_on(FIRST, owner)
        looks += not Note.objects.using(SECOND).filter(owner=owner).exists()
        connections[SECOND].close()
        assert verb(table_of(Note, SECOND), owner, key).written == [key]
    print(f"\nnot seen yet: at least {looks} of {ROUNDS}")


def test_a_failure_keeps_the_errors_before_it(galera):
    ready(1)
    for number in range(2):
        [job] = claim(table_of(Note, FIRST), "default", 1, f"w.{number}")
        job._state.db = SECOND
        job.fail(RuntimeError(f"failure {number}"))
        dialect_of(connections[FIRST]).catch_up()
        Note.objects.using(FIRST).all().kick()
    [job] = Note.objects.using(FIRST).all()
    assert [one["message"] for one in job.errors] == ["failure 0", "failure 1"]


def test_what_a_claim_took_is_found_by_another_node(galera):
    ready()
    for number in range(ROUNDS):
        owner = f"w.{number}"
        keys = claim_on(FIRST, owner)
        assert [one.held.key for one in reap.give_back(table_of(Note, SECOND), owner)] == keys


def test_what_a_gone_worker_held_is_found_by_another_node(galera):
    ready()
    for number in range(ROUNDS):
        keys = claim_on(FIRST, f"w{number}.1")
        assert [
            one.held.key for one in reap.reap_owner(table_of(Note, SECOND), f"w{number}.")
        ] == keys


def test_no_late_write_gets_through(galera):
    """The claim was ended on another node a moment ago, and the job is somebody else's by now."""
    ready(1)
    for number in range(ROUNDS):
        [key] = claim_on(FIRST, f"old.{number}")
        reap.reap_owner(table_of(Note, SECOND), f"old.{number}")
        assert claim_on(SECOND, f"new.{number}") == [key]
        late = holder.complete(table_of(Note, FIRST), f"old.{number}", [key])
        assert late.lost == [key]
        assert held_by(FIRST, key) == (f"new.{number}", Status.CLAIMED)
        holder.release(table_of(Note, THIRD), f"new.{number}", [key])
        dialect_of(connections[FIRST]).catch_up()


def test_of_a_key_no_more_are_claimed_on_all_nodes_than_its_limit(galera):
    jobs = [Shared(tenant=f"t{n % 5}", queue=NODES[n % 3]) for n in range(300)]
    Shared.objects.using(FIRST).bulk_create(jobs)

    def take(node):
        found = []
        for number in range(20):
            jobs = claim(table_of(Shared, node), node, 3, f"{node}.{number}")
            found += [job.pk for job in jobs]
        return found

    start_all(*[on(node, partial(take, node)) for node in NODES])
    dialect_of(connections[FIRST]).catch_up()
    claimed = Shared.objects.using(FIRST).claimed().values_list("tenant", flat=True)
    assert Counter(claimed) == {f"t{n}": 2 for n in range(5)}
    Shared.objects.using(FIRST).all()._raw_delete(FIRST)


def test_a_bounded_queue_takes_no_more_from_all_nodes_than_it_holds(galera):
    def put(node):
        found = Counter()
        for _ in range(100):
            try:
                create(node)
                found["taken"] += 1
            except (QueueFull, Error) as error:
                found[type(error).__name__] += 1
        return found

    with limits(max_length=100):
        found = start_all(*[on(node, partial(put, node)) for node in NODES])
    dialect_of(connections[FIRST]).catch_up()
    print(f"\n{found}")
    assert sum(one["taken"] for one in found) == Note.objects.using(FIRST).count() == 100


def test_a_node_outside_its_cluster_asks_for_another_connection(galera):
    kinds, over = Counter(), threading.Event()
    table = table_of(Note, THIRD)

    def write():
        while not over.is_set():
            try:
                create(THIRD)
            except Error as error:
                kinds[table.dialect.error_kind(error)] += 1
                connections[THIRD].close()
        return kinds

    def isolate():
        galera.nodes[2].isolate()
        try:
            wait_until(lambda: galera.nodes[2].status("wsrep_cluster_status") != "Primary")
            wait_until(lambda: kinds)
        finally:
            over.set()
            galera.nodes[2].isolate(on=False)
        return

    table = table_of(Note, THIRD)
    start_all(on(THIRD, write), isolate)
    galera.wait_until_whole()
    assert set(kinds) == {ErrorKind.LOST}


@pytest.mark.parametrize(("port", "is_told"), [("spread", True), ("prefers", False)])
def test_check_tells_of_connections_that_are_spread(galera, port, is_told):
    ports = getattr(galera.proxy, port)
    number = ports if isinstance(ports, int) else ports[1]

    def told():
        with suppress(OperationalError):  # nodes of the test before may not be up for HAProxy yet
            found = [m for m in run_checks(databases=["behind"]) if m.id == "dbqueue.W015"]
            return [found] if found or not is_told else None

    with alias_to(galera.proxy.url_of(number), "behind"):
        [found] = wait_until(told)
    assert bool(found) == is_told
    assert not is_told or sum(node in found[0].msg for node in NODES) > 1
