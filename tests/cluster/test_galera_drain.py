"""How fast workers drain a queue on a Galera cluster, next to one server: printed, not judged."""

import time
from contextlib import ExitStack, contextmanager

import pytest
from mysql_servers import MariaDB

from tests.kit.clusters import alias_to, migrate, short_folder
from tests.kit.galera import NODES, cluster
from tests.kit.processes import worker
from tests.queueapp.models import Note

pytestmark = [pytest.mark.cluster, pytest.mark.process, pytest.mark.any_database]
ONE = "one"


class OneServer(MariaDB):
    """With the same care for its disk as the nodes."""

    def command(self):
        return [*super().command(), "--innodb-flush-log-at-trx-commit=2"]


@contextmanager
def one_server():
    with short_folder() as folder:
        server = OneServer(folder)
        try:
            server.start()
            with alias_to(server.url(), ONE):
                migrate(ONE)
                yield server
        finally:
            server.stop()


def rate(alias, urls, jobs):
    """Jobs a second, from the first claim to the last end."""
    notes = Note.objects.using(alias)
    notes.all()._raw_delete(alias)
    notes.enqueue_many([{}] * jobs)
    with ExitStack() as stack:
        workers = [stack.enter_context(worker(url, "--stop-when-empty")) for url in urls]
        for one in workers:
            assert one.end(300) == 0
    done = notes.done().values_list("dequeued_time", "finished_at")
    assert len(done) == jobs
    seconds = max(end for _, end in done) - min(begin for begin, _ in done)
    return jobs / seconds.total_seconds()


def test_a_drain_next_to_one_server(django_db_blocker, full):
    jobs, rounds = (10_000, 3) if full else (5000, 1)
    with django_db_blocker.unblock(), one_server() as server, cluster() as galera:
        nodes = [node.url() for node in galera.nodes]
        for _ in range(rounds):
            for count in (1, 3):
                alone = rate(ONE, [server.url()] * count, jobs)
                time.sleep(1)
                before = galera.status("wsrep_local_cert_failures")
                spread = rate(NODES[0], nodes[:count], jobs)
                refused = galera.status("wsrep_local_cert_failures") - before
                print(
                    f"\n{count} workers: {alone:.0f} jobs/s on one server, {spread:.0f} on "
                    f"{count} of three nodes: {spread / alone:.2f}; {refused} commits refused"
                )
