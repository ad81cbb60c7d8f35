"""A primary and a standby behind an address that follows the primary; killed, and replaced."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from django.db import connections
from django.db.utils import Error

from django_dbqueue.diagnose.check import check_integrity
from django_dbqueue.torture.proxy import Proxy
from tests.kit.clusters import alias_to, check_ids, migrate, short_folder
from tests.kit.outage_scene import ALIAS, FAST, at_work
from tests.kit.processes import Process, lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Effect, Note, Transfer

PAUSE = 0.02  # seconds between two jobs of a producer
MODELS = Note, Transfer


class Producer(threading.Thread):
    """Enqueues, one after the other, and notes what was confirmed: by key, its name, and when."""

    def __init__(self, model: Any, log: str) -> None:
        super().__init__()
        self.model = model
        self.log = log
        self.over = threading.Event()
        # By name, which is this producer's own: a key may be given to two.
        self.confirmed: dict[str, tuple[int, float]] = {}
        self.failed = 0

    def run(self) -> None:
        number = 0
        while not self.over.is_set():
            number += 1
            try:
                job = self.model.objects.using(ALIAS).create(**self.values(str(number)))
                self.confirmed[str(number)] = job.pk, time.monotonic()
                self.over.wait(PAUSE)
            except Error:
                self.failed += 1
                connections[ALIAS].close()
                self.over.wait(0.1)
        connections[ALIAS].close()

    def values(self, name: str) -> dict[str, Any]:
        named = {"text": name} if self.model is Note else {"data": {"name": name}}
        return {**named, "log": self.log}

    def stop(self) -> None:
        self.over.set()
        self.join()


@dataclass
class Cluster:
    """Two nodes, of which ``primary`` is the one that takes writes."""

    primary: Any
    standby: Any
    relay: Proxy
    scheme: str
    is_synchronous: bool
    first_starts: list[float] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}@127.0.0.1:{self.relay.port}/dbqueue"

    def socket(self, node: Any) -> str:
        return str(getattr(node, "socket", node.folder / ".s.PGSQL.5432"))

    def fail_over(self) -> float:
        """The primary is killed, the standby takes its place; when it was killed."""
        killed_at = time.monotonic()
        self.primary.kill()
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary
        self.relay.server = self.socket(self.primary)
        return killed_at

    def replace_standby(self) -> None:
        self.standby.become_standby_of(self.primary, self.is_synchronous)


@contextmanager
def cluster(kind: Any, scheme: str, *, synchronous: bool) -> Iterator[Cluster]:
    """``kind``: makes a node below a folder, by its number. Django's alias leads to the relay."""
    with short_folder() as folder, ExitStack() as stack:
        nodes = [kind(folder, number) for number in (1, 2)]
        for node in nodes:
            stack.callback(node.stop)
        nodes[0].start()
        relay = stack.enter_context(Proxy(""))
        made = Cluster(nodes[0], nodes[1], relay, scheme, synchronous)
        relay.server = made.socket(nodes[0])
        stack.enter_context(alias_to(made.url))
        migrate(ALIAS)
        connections[ALIAS].close()
        made.replace_standby()
        yield made


@dataclass
class Load:
    """Producers and workers, with what they have done."""

    cluster: Cluster
    log: str
    producers: list[Producer]
    workers: list[Process]

    def starts(self) -> list[str]:
        """The keys of what has started, and each of them as often."""
        return [line.split()[0] for line in lines(f"{self.log}.Note")]

    def seconds_until_first_start(self, killed_at: float) -> float:
        """From the kill to the first start of a job that was confirmed after the failover, or had
        been waiting."""
        promoted_at = time.monotonic()

        def is_started() -> bool:
            confirmed = list(self.producers[0].confirmed.values())
            new = {str(key) for key, at in confirmed if at > promoted_at}
            return bool(new & set(self.starts()))

        wait_until(is_started, every=0.01)
        return time.monotonic() - killed_at

    def told(self) -> str:
        confirmed = [one for producer in self.producers for one in producer.confirmed.values()]
        keys = [{key for key, _ in one.confirmed.values()} for one in self.producers]
        starts = Counter(self.starts())
        return (
            f"{len(confirmed)} jobs confirmed, {sum(len(lost(one)) for one in self.producers)} "
            f"lost, {len(confirmed) - sum(map(len, keys))} ids given twice, "
            f"{starts.total() - len(starts)} of {starts.total()} starts repeated"
        )

    def work_until(self, count: int) -> None:
        wait_until(lambda: len(self.starts()) >= count, every=0.05)

    def drain(self) -> None:
        for producer in self.producers:
            producer.stop()
        connections[ALIAS].close()

        def is_over() -> bool:
            for process in self.workers:
                at_work(process)
            return not any(left(model) for model in MODELS)

        wait_until(is_over, seconds=120, every=0.2)


def left(model: Any) -> int:
    return int(model._base_manager.using(ALIAS).exclude(status=2).count())


@contextmanager
def load(made: Cluster, log: str) -> Iterator[Load]:
    """While this lasts, two workers run what is enqueued; they are at work when it begins."""
    arguments = "--processes", "1", "--threads", "2"
    with ExitStack() as stack:
        workers = [stack.enter_context(worker(made.url, *arguments, **FAST)) for _ in range(2)]
        producers = [Producer(model, f"{log}.{model.__name__}") for model in MODELS]
        for producer in producers:
            producer.start()
            stack.callback(producer.stop)
        under = Load(made, log, producers, workers)
        under.work_until(50)
        yield under


def names_of(model: Any) -> dict[str, int]:
    """By name, the key of each job that is there."""
    rows = model._base_manager.using(ALIAS).values_list("pk", "text" if model is Note else "data")
    return {value if model is Note else value["name"]: key for key, value in rows}


def lost(producer: Producer) -> list[str]:
    """The names of jobs that were confirmed and are not there."""
    return sorted(producer.confirmed.keys() - names_of(producer.model).keys(), key=int)


def effects() -> Counter[int]:
    return Counter(Effect.objects.using(ALIAS).values_list("job", flat=True))


def check_effects() -> None:
    """Of each exactly-once job that is there one, and none of another."""
    assert set(names_of(Transfer).values()) == effects().keys()
    assert set(effects().values()) == {1}


def prove_that_nothing_is_lost(made: Cluster, log: str, times: int) -> str:
    """Kill the primary so often; in words, what came of it."""
    check_what_is_said_of_the_servers(made)
    with load(made, log) as under:
        seconds = []
        for _ in range(times):
            under.work_until(len(under.starts()) + 100)
            seconds.append(under.seconds_until_first_start(made.fail_over()))
            made.replace_standby()
        under.drain()
        check_effects()
        told = under.told()
        assert not any(lost(producer) for producer in under.producers)
    return (
        f"{times} failovers: {told}; first start after the kill: "
        f"median {median(seconds):.1f} s, at most {max(seconds):.1f} s"
    )


def prove_what_is_lost(made: Cluster, log: str, times: int, lag: float) -> str:
    """The same, where the standby lacks what the last ``lag`` seconds have committed."""
    check_what_is_said_of_the_servers(made)
    with load(made, log) as under:
        cut: list[tuple[float, float]] = []
        for _ in range(times):
            under.work_until(len(under.starts()) + 100)
            began = time.monotonic()
            made.standby.lag_behind(made.primary)
            time.sleep(lag)
            killed_at = made.fail_over()
            cut.append((began, killed_at))
            under.seconds_until_first_start(killed_at)
            made.replace_standby()
        under.drain()
        check_effects()
        check_all_lost_were_late(under, cut)
        assert check_integrity(ALIAS).findings == []
        return f"{times} failovers, {lag:g} s behind: {under.told()}"


def check_all_lost_were_late(under: Load, cut: list[tuple[float, float]]) -> None:
    for producer in under.producers:
        missing = lost(producer)
        assert missing, "the standby had all: nothing is shown"
        for name in missing:
            at = producer.confirmed[name][1]
            # What was under way as the standby was cut off may have been late.
            assert any(began - 0.5 <= at <= end + 0.5 for began, end in cut), name


def check_what_is_said_of_the_servers(made: Cluster, own_alias: str = "standby") -> None:
    """By the system checks: of the primary, and of its standby."""
    expected = set() if made.is_synchronous else {"dbqueue.W012"}
    assert check_ids(ALIAS) == expected
    with alias_to(made.standby.url(), own_alias):
        assert check_ids(own_alias) == {"dbqueue.W011"}
