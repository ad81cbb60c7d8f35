"""A Galera cluster of a test's own, with an alias of Django's for each node, and HAProxy."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from galera_servers import Galera, HAProxy

from django_dbqueue.models import Worker
from tests.kit.clusters import alias_to, migrate, short_folder
from tests.kit.processes import ROOT
from tests.queueapp.models import Effect, Note, Transfer

NODES = ["node0", "node1", "node2"]


class Cluster(Galera):
    """Three nodes; ``proxy`` stands before them."""

    proxy: HAProxy

    def status(self, name: str) -> int:
        """The sum over all nodes."""
        return sum(int(node.status(name) or 0) for node in self.nodes)

    def empty(self) -> None:
        for model in (Note, Transfer, Effect, Worker):
            model._base_manager.using(NODES[0]).all()._raw_delete(NODES[0])


@contextmanager
def cluster() -> Iterator[Cluster]:
    """With the tables of the tests."""
    with short_folder() as folder, ExitStack() as stack:
        found = Cluster(folder)
        stack.callback(found.stop)
        found.start()
        found.proxy = HAProxy(folder, found.nodes)
        stack.callback(found.proxy.stop)
        found.proxy.start()
        for name, node in zip(NODES, found.nodes, strict=True):
            stack.enter_context(alias_to(node.url(), name))
        migrate(NODES[0])
        yield found


class Producer:
    """A process that enqueues at a URL, and at the others in turn while that one is away."""

    def __init__(self, count: int, mark: str, log: str, urls: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.kit.galera_producer", str(count), mark, log, *urls],
            cwd=ROOT,
            env=os.environ | {"DATABASE_URL": urls[0], "DBQUEUE_TESTS": "1", "DEBUG": "0"},
            stdout=subprocess.PIPE,
            text=True,
        )

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def answer(self) -> dict[str, Any]:
        out, _ = self.process.communicate(timeout=60)
        return dict(json.loads(out))

    def kill(self) -> None:
        if not self.has_ended():
            self.process.kill()
            self.process.wait()
