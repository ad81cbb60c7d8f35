"""Workers killed while they send, right after the server took a message: none lost, few twice."""

import os
import random
import signal
from collections import Counter
from contextlib import ExitStack

import pytest

from django_dbqueue.mail.models import Email
from tests.kit.mail import letter, queue_all, queued
from tests.kit.processes import worker
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.each_database, pytest.mark.usefixtures("db_rows")]

THREADS = 2


class Fleet:
    """Two hosts; who is killed is started again."""

    def __init__(self, database_url, server, stack):
        self.start = lambda: stack.enter_context(
            worker(
                database_url,
                *("--threads", str(THREADS)),
                **server.environment,
                DBQUEUE_BEAT_INTERVAL="0.3",
                DBQUEUE_WORKER_TIMEOUT="1.5",
            )
        )
        self.hosts = [self.start(), self.start()]
        self.killed = 0

    def kill(self, number, *, whole):
        """SIGKILL to a host, supervisor included, or to its child alone."""
        host = self.hosts[number]
        if whole:
            host.send_group(signal.SIGKILL)
            self.hosts[number] = self.start()
        else:
            children = host.children()
            if not children:
                return
            os.kill(children[0], signal.SIGKILL)
        self.killed += 1


def enqueue(count):
    assert queue_all([letter(f"customer{n}") for n in range(count)]) == count
    assert Email.objects.count() == count


def ids(server):
    return Counter(one.message["Message-ID"] for one in server.received)


@pytest.mark.proof
def test_kills_lose_no_mail_and_repeat_one_a_thread_at_most(database_url, server, full):
    total, kills = (500, 20) if full else (100, 4)
    seed = int(os.environ.get("MAIL_SEED", "6"))
    dice = random.Random(seed)
    # So many messages apart, each time right after a 250 that its client may not have read.
    marks = sorted(dice.sample(range(5, total - total // 5), kills))
    enqueue(total)
    with ExitStack() as stack:
        fleet = Fleet(database_url, server, stack)
        for mark in marks:
            wait_until(lambda mark=mark: len(server.received) >= mark)
            fleet.kill(dice.randrange(2), whole=dice.random() < 0.5)
        wait_until(lambda: Email.objects.done().count() == total, seconds=120)
    found = ids(server)
    twice = sum(found.values()) - len(found)
    print(
        f"seed {seed}: {fleet.killed} kills, {total} mails, {len(found)} Message-IDs, {twice} twice"
    )
    for lost in Email.objects.exclude(message_id__in=list(found)):
        print(f"{lost}: {lost.mail_state} {lost.deliveries} {lost.errors}")
    assert len(found) == total
    assert twice <= fleet.killed * THREADS
    assert max(found.values()) <= 3


def test_who_is_killed_between_the_250_and_its_record_sends_it_once_more(database_url, server):
    """The one duplicate that nothing avoids: the server has it, and nobody could say so."""
    hosts = []

    def kill(_):
        if len(server.received) == 1:
            os.kill(hosts[0].children()[0], signal.SIGKILL)

    server.before_answer = kill
    email = queued("anna")
    with worker(database_url, **server.environment) as process:
        hosts.append(process)
        wait_until(lambda: Email.objects.done().exists())
    assert [one.message["Message-ID"] for one in server.received] == [email.message_id] * 2
    assert Email.objects.get().crashes == 1
