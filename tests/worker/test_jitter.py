"""What waits for the same thing does not come back at the same moment."""

import time
from collections import deque
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError, connections

from django_dbqueue.backoff import Exponential, Fixed
from django_dbqueue.dialects import ErrorKind, dialect_of
from django_dbqueue.dialects.base import Dialect
from django_dbqueue.mail.backoff import MailBackoff
from django_dbqueue.mail.models import Mailer
from django_dbqueue.metrics.backlogs import BacklogSampler
from django_dbqueue.metrics.counting import JobCounter
from django_dbqueue.models.exactly_once import ExactlyOnceRun
from django_dbqueue.models.rate_bucket import RateBucketManager
from django_dbqueue.worker.buffer import Buffer
from django_dbqueue.worker.claimer import Claimer
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.queue_poller import QueueScheduler
from django_dbqueue.worker.served import parse_served
from django_dbqueue.worker.session import ReconnectBackoff
from django_dbqueue.worker.shared_memory import SharedMemory
from django_dbqueue.worker.wakeup import LOOKS_MAX, Wakeup

pytestmark = pytest.mark.usefixtures("db_rows")

WORKERS = 100
OPTIONS = Options(served=parse_served(["queueapp.Note"]), sleep=4)


def database_away():
    backoff = ReconnectBackoff("trying")
    pauses = [backoff.failed(OperationalError("gone")) for _ in range(6)]
    return pauses[-1]


def first_failure():
    return ReconnectBackoff("trying").failed(OperationalError("gone"))


def idle():
    """A worker that has found nothing for long."""
    scheduler = QueueScheduler(OPTIONS)
    [poller] = scheduler.pollers
    poller.pause = OPTIONS.sleep
    assert scheduler.next() is None
    return poller.next_look - time.monotonic()


def others_were_faster():
    claimer = Claimer(
        OPTIONS, "w.1-", Buffer(1), SharedMemory(1), Wakeup({"default"}), None, lambda: 0
    )
    claimer.turn()
    [poller] = claimer.scheduler.pollers
    # It has just seen jobs there.
    poller.queues, poller.next_look = deque(["default"]), float("inf")
    pause = claimer.turn()
    assert not poller.queues
    return pause


def deadlock():
    return list(islice(dialect_of(connections["default"]).retry_pauses(), 4))[-1]


def deadlock_on_a_server():
    return list(Dialect.retry_pauses(dialect_of(connections["default"])))[-1]


def deadlock_of_a_job():
    once: Any = SimpleNamespace(tries=2, error_kind=lambda error: ErrorKind.AGAIN)
    return ExactlyOnceRun.pause_after(once, OperationalError("deadlock"))


def mailer_at_rest():
    Mailer.objects.pause("m", 100, "421")
    return Mailer.objects.ask("m", 1, "default")


def first_look_at_the_backlogs():
    return BacklogSampler([])._sample_at - time.monotonic()


def first_count():
    return JobCounter([])._look_at - time.monotonic()


def news_for_others():
    naps: list[float] = []
    bell: Any = Wakeup([])
    bell.sleep = naps.append
    for _ in range(LOOKS_MAX + 1):
        bell.hesitate()
    return naps[0]


PAUSES = {
    "retry": lambda: Exponential().seconds(2),
    "retry at the cap": lambda: Exponential(cap=60).seconds(20),
    "retry of mail": lambda: MailBackoff().seconds(1),
    "database away": database_away,
    "first failure": first_failure,
    "idle": idle,
    "others were faster": others_were_faster,
    "deadlock": deadlock,
    "deadlock on a server": deadlock_on_a_server,
    "deadlock of a job": deadlock_of_a_job,
    "mailer at rest": mailer_at_rest,
    "first look at the backlogs": first_look_at_the_backlogs,
    "first count": first_count,
    "news for others": news_for_others,
}


@pytest.mark.parametrize("name", PAUSES)
def test_pauses_differ_from_worker_to_worker(name):
    pauses = [PAUSES[name]() for _ in range(WORKERS)]
    assert min(pauses) > 0
    # Spread evenly enough that no tenth of the range holds most of them.
    share = (max(pauses) - min(pauses)) / 10
    assert share > max(pauses) / 200
    tenths = [int((pause - min(pauses)) / share) for pause in pauses]
    assert max(map(tenths.count, tenths)) < WORKERS / 2


def test_who_asks_for_a_turn_in_vain_does_not_ask_again_together(settings, monkeypatch):
    settings.DBQUEUE = {"MAIL_LIMITS": {"m": {"second": 10}}}
    monkeypatch.setattr(RateBucketManager, "_write", lambda *_: False)  # others are faster
    waits = {Mailer.objects.ask("m", 1, "default") for _ in range(6)}
    assert len(waits) > 3


@pytest.mark.parametrize("jitter", [0, 0.5])
def test_a_retry_s_jitter_is_as_large_as_it_was_asked_for(jitter):
    pauses = [Exponential(first=100, jitter=jitter).seconds(1) for _ in range(500)]
    assert 100 - 100 * jitter <= min(pauses) <= 100 - 90 * jitter
    assert 100 + 90 * jitter <= max(pauses) <= 100 + 100 * jitter


def test_a_fixed_pause_is_what_was_asked_for():
    assert {Fixed(20).seconds(attempt) for attempt in range(1, 20)} == {20}
