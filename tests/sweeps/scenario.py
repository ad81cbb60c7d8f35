"""A short life of a queue table: people, loops of one's own, and a worker, one after the other."""

from functools import partial

import pytest
from django.db import transaction

from django_dbqueue.exceptions import ClaimLost
from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle import holder, reap
from django_dbqueue.lifecycle.table import table_of
from tests.queueapp.faults import record
from tests.queueapp.models import Chore, Errand
from tests.sweeps.stage import change, let_time_pass
from tests.sweeps.stepwise import StepwiseWorker, insist


class Scenario:
    """Each step notes that it was confirmed; ``places`` rest while other processes do something."""

    def __init__(self, places, log, confirmed):
        self.places, self.log, self.confirmed = places, log, confirmed
        self.worker = StepwiseWorker()

    def run(self):
        steps = (
            self.beat,
            self.enqueue_in_transaction,
            self.roll_back,
            self.enqueue_once,
            self.enqueue_many,
            self.kick,
            self.pause,
            self.cancel,
            self.zombies_write,
            self.finish_twice,
            self.finish_a_pair,
            self.reap_what_had_moved_on,
            self.reap,
            self.give_back,
            self.work,
            self.promote,
            self.work,
            self.sign_off,
        )
        for step in steps:
            step()
            record(self.confirmed, step.__name__)

    # A producer's, and a person's.

    def enqueue_in_transaction(self):
        def enqueue():
            with transaction.atomic():
                for name in ("both-1", "both-2"):
                    Chore.objects.enqueue(name=name, log=self.log)

        insist(enqueue)

    def roll_back(self):
        def enqueue():
            with transaction.atomic():
                Chore.objects.enqueue(name="never", log=self.log)
                transaction.set_rollback(True)

        insist(enqueue)

    def enqueue_once(self):
        for name in ("once", "again"):
            enqueue = partial(Chore.objects.enqueue, name=name, dedup_key="once", log=self.log)
            insist(enqueue)

    def enqueue_many(self):
        rows = [{"name": f"many-{n}"} for n in (1, 2, 3)]
        insist(lambda: Chore.objects.enqueue_many(rows, log=self.log))

    def kick(self):
        insist(Chore.objects.filter(name="buried").kick)

    def pause(self):
        insist(lambda: Chore.objects.pause("quiet"))

    def cancel(self):
        insist(Chore.objects.filter(name="cancelled").cancel)

    # Loops of one's own.

    def zombies_write(self):
        """All that the former owner of a job may try; then the present one."""
        job = insist(lambda: Chore.objects.get(name="stolen"))
        for verb in VERBS:
            self.refuse(verb, job, "old.1")
        self.complete("stolen", "new.1")
        errand = insist(lambda: Errand.objects.get(name="errand-3"))
        self.refuse(Errand.complete, errand, "old.2")
        errand.claim_owner = "new.2"
        insist(errand.complete)

    def finish_twice(self):
        """Who has completed a job cannot give it back any more."""
        job = insist(lambda: Chore.objects.get(name="finished"))
        self.complete("finished", "same.1")
        for verb in VERBS[1:]:
            self.refuse(verb, job, "same.1")

    def refuse(self, verb, job, owner):
        job.claim_owner, job.claim_key = owner, job.pk
        with pytest.raises(ClaimLost):
            insist(partial(verb, job))

    def complete(self, name, owner):
        job = insist(lambda: Chore.objects.get(name=name))
        written = insist(lambda: holder.complete(self.table, owner, [job.pk]))
        assert written.written == [job.pk], "its owner is told that it lost it"

    def finish_a_pair(self):
        """A batch of which one has another owner by now."""
        jobs = insist(lambda: list(Chore.objects.filter(name__startswith="pair")))
        keys = [job.pk for job in jobs]
        insist(lambda: holder.complete(self.table, "pair.1", keys))
        insist(lambda: holder.touch(self.table, "pair.1", keys))
        self.complete("pair-2", "other.1")

    def reap_what_had_moved_on(self):
        """Between the reaper's look and its write one owner touches, the other changes."""
        found = insist(lambda: reap.find_overdue(self.table))
        [slow] = [held for held in found if held.owner == "slow.1"]
        insist(lambda: holder.touch(self.table, "slow.1", [slow.key]))
        with self.places.unnumbered():
            change("slow-2", owner="slow.3", retry_at=DbNow(plus=-5))
        insist(lambda: reap.end_overdue(self.table, found))
        self.complete("slow-1", "slow.1")
        self.complete("slow-2", "slow.3")

    # A worker's.

    def beat(self):
        self.worker.beat()

    def reap(self):
        self.worker.reap()

    def give_back(self):
        self.worker.claim_and_give_back()

    def work(self):
        self.worker.work()

    def promote(self):
        with self.places.unnumbered():
            let_time_pass()
        self.worker.reap()

    def sign_off(self):
        self.worker.sign_off()

    @property
    def table(self):
        return table_of(Chore, "default")


VERBS = (
    Chore.complete,
    Chore.touch,
    Chore.release,
    Chore.bury,
    lambda job: job.fail("too late"),
)
