"""A mixed load on queue tables, and kills of those who work it off."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import OperationalError
from django.db.models import QuerySet
from django.utils import timezone

from django_dbqueue.fields import DbNow
from django_dbqueue.mail.models import Email
from django_dbqueue.models import Job, Queue, Worker
from django_dbqueue.states import Status
from tests.kit.figures.audit import now, run
from tests.kit.mail import letter, queue_all
from tests.kit.processes import Process, worker
from tests.kit.smtp_server import ScriptedServer
from tests.queueapp.models import Kept, Note, Pruned

MODELS: tuple[type[Job], ...] = (Note, Kept, Pruned, Email)
QUEUES = ("default", "reports", "letters")
ACTIONS = ("",) * 12 + ("fail", "fail", "bury", "retry", "save", "complete")
STOCK = "stock"  # a paused queue, of which nothing runs
STOCKED = {Status.READY: 1_300, Status.DELAYED: 1_600, Status.BURIED: 1_400}
RUNS_MAX = 3_000  # finished notes that are kept
WORKERS = 3
WORKER = ("--processes", "2", "--threads", "2")
MAIL_EVERY = 6  # steps
CRASHES = 0.003  # of the notes


TIMEOUT_SECONDS = 6  # without a beat, after which a worker is silent


@dataclass(frozen=True)
class Kill:
    """``whole``: the supervisor and all of its children, or one child."""

    at: int
    worker: str
    whole: bool


class Fleet:
    """Some workers; one that is killed is started again."""

    def __init__(self, database_url: str, server: ScriptedServer, stack: ExitStack) -> None:
        tables = [model._meta.label_lower for model in MODELS]
        timing = {"BEAT_INTERVAL": "1", "WORKER_TIMEOUT": f"{TIMEOUT_SECONDS}"}
        more = server.environment | {f"DBQUEUE_{name}": value for name, value in timing.items()}
        self.start: Callable[[], Process] = lambda: stack.enter_context(
            worker(database_url, *tables, *WORKER, **more)
        )
        self.started: dict[int, int] = {}  # supervisors, and when
        self.ended: dict[int, int] = {}
        self.kills: list[Kill] = []
        self.start_all()

    def start_all(self) -> None:
        self.workers = [self.start() for _ in range(WORKERS)]
        self.started |= {one.pid: now() for one in self.workers}

    def kill(self, dice: random.Random) -> None:
        place = dice.randrange(len(self.workers))
        process = self.workers[place]
        uuid = Worker.objects.filter(pid=process.pid).values_list("uuid", flat=True).first()
        if uuid is None:
            return  # it has just been started
        whole = dice.random() < 0.3
        if whole:
            process.send_group(signal.SIGKILL)
            process.end()
            self.ended[process.pid] = now()
            self.workers[place] = self.start()
            self.started[self.workers[place].pid] = now()
        elif children := process.children():
            with suppress(ProcessLookupError):
                os.kill(dice.choice(children), signal.SIGKILL)
        self.kills.append(Kill(now(), uuid, whole))

    def stop(self) -> None:
        """What they have counted is written then."""
        for process in self.workers:
            process.send(signal.SIGTERM)
        for process in self.workers:
            assert process.end(90) == 0, process.stderr
            self.ended[process.pid] = now()


class Load:
    """``step`` does one thing, and says how many jobs it has enqueued."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.steps = self.enqueued = self.mails = 0
        self.crashes = False  # whether there are jobs that kill their child
        self.done: Counter[str] = Counter()
        self.slowest = 0.0  # seconds of a step

    def fill_stock(self) -> None:
        """So many of each state that they are counted in the background."""
        moment = {"retry_at": DbNow(plus=86_400)}
        kind = {"failure": "f" * 16, "failed_at": DbNow(), "finished_at": DbNow()}
        columns: dict[Status, dict[str, Any]] = {Status.DELAYED: moment, Status.BURIED: kind}
        for model in (Note, Kept):
            Queue.objects.pause(model._meta.db_table, STOCK, None, "nobody is to work it off")
            for status, number in STOCKED.items():
                jobs = [
                    model(queue=STOCK, status=status, **columns.get(status, {}))
                    for _ in range(number)
                ]
                rows: Any = QuerySet(model)
                rows.bulk_create(jobs, batch_size=200)

    def step(self) -> int:
        self.steps += 1
        before, began = self.enqueued, time.monotonic()
        self._enqueue()
        if self.steps % 2 == 0:
            self._by_hand()
        if self.steps % MAIL_EVERY == 0:
            self.mails += queue_all([letter(f"customer{self.steps}")])
            self.enqueued += 1
        self.slowest = max(self.slowest, time.monotonic() - began)
        return self.enqueued - before

    def _enqueue(self) -> None:
        dice, queue = self.dice, self.dice.choice(QUEUES)
        model = dice.choice((Note, Note, Note, Note, Kept, Pruned))
        way = dice.random()
        if way < 0.15 and model is not Pruned:
            key = f"key-{dice.randrange(20)}"
            _, is_new = model.objects.enqueue(queue=queue, dedup_key=key)
            self.enqueued += is_new
            return
        number = dice.randint(1, 8)
        priority = dice.choice([0, 1024, 1024, 5000])
        jobs = [{"queue": queue, "priority": priority} | self._own(model) for _ in range(number)]
        delay = dice.choice([0, 0, 0, 0, dice.uniform(0.5, 20), 3_000])
        self.enqueued += model.objects.enqueue_many(jobs, delay=delay)

    def _own(self, model: type[Job]) -> dict[str, Any]:
        if model is not Note:
            return {}
        dice = self.dice
        seconds = dice.uniform(1, 4) if dice.random() < 0.03 else dice.uniform(0, 0.03)
        action = "crash" if self.crashes and dice.random() < CRASHES else dice.choice(ACTIONS)
        return {"action": action, "seconds": seconds, "text": f"number {dice.randrange(9)}"}

    def _by_hand(self) -> None:
        acts = [getattr(self, name) for name in dir(self) if name.startswith("act_")]
        act = self.dice.choice(acts)
        with suppress(OperationalError):  # a deadlock: SQL by hand is not tried again
            act()
        self.done[act.__name__.removeprefix("act_")] += 1

    def _some(self, model: Any, *states: Status, most: int = 20) -> Any:
        """Of which a person has ticked some."""
        keys = list(model.objects.filter(status__in=states).values_list("pk", flat=True)[:500])
        chosen = self.dice.sample(keys, min(len(keys), self.dice.randint(1, most)))
        return model.objects.filter(pk__in=chosen)

    def act_kick(self) -> None:
        self._some(self.dice.choice([Note, Kept]), Status.BURIED, Status.DELAYED).kick()

    def act_cancel(self) -> None:
        self._some(self.dice.choice([Note, Kept]), *Status, most=5).cancel()

    def act_bury(self) -> None:
        self._some(Note, Status.READY, Status.DELAYED, Status.CLAIMED, most=8).bury()

    def act_release(self) -> None:
        self._some(Note, Status.CLAIMED, most=3).release()

    def act_move(self) -> None:
        model = self.dice.choice([Note, Kept])
        queue = self.dice.choice([*QUEUES, STOCK])
        self._some(model, Status.READY, Status.DELAYED, Status.BURIED).move(queue)

    def act_reschedule(self) -> None:
        self._some(Note, Status.READY, Status.DELAYED).reschedule(self.dice.uniform(0, 4_000))

    def act_prioritize(self) -> None:
        self._some(Note, Status.READY, Status.BURIED).prioritize(self.dice.randrange(3_000))

    def act_retry_group(self) -> None:
        """All that is buried with one failure, but for a few that come meanwhile."""
        found = Note.objects.buried().exclude(failure=None).exclude(queue=STOCK)
        if failure := found.values_list("failure", flat=True).first():
            Note.objects.buried().filter(failure=failure).exclude(queue=STOCK)[:300].kick()

    def act_pause(self) -> None:
        Note.objects.pause(self.dice.choice(QUEUES), self.dice.uniform(0.5, 3), "for a moment")

    def act_archive_and_prune(self) -> None:
        """Their time comes, as if hours had passed: the reapers archive and prune them."""
        for model in (Kept, Pruned):
            done: Any = QuerySet(model).filter(status=Status.DONE)
            keys = list(done.order_by("pk").values_list("pk", flat=True)[:100])
            QuerySet(model).filter(pk__in=keys, status=Status.DONE).update(retry_at=DbNow())

    def act_delete_rows(self) -> None:
        """By hand, in SQL."""
        keys = list(QuerySet(Note).filter(status=Status.DONE).values_list("pk", flat=True))
        gone = sorted(keys)[: max(10, len(keys) - RUNS_MAX)]
        if gone:
            run(f"DELETE FROM queueapp_note WHERE id IN ({', '.join(map(str, gone[:400]))})")

    def act_old_failures(self) -> None:
        """A hand says that some failed a day ago."""
        keys = list(self._some(Note, Status.BURIED, most=3).values_list("pk", flat=True))
        moment = timezone.now() - timedelta(days=1)
        QuerySet(Note).filter(pk__in=keys, status=Status.BURIED).update(failed_at=moment)
