"""Queue tables whose effects are to happen exactly once, and the effects, to be counted."""

import os
import signal
import time
from functools import partial

from asgiref.sync import sync_to_async
from django.db import connection, models, transaction

from django_dbqueue.backoff import Fixed
from django_dbqueue.exceptions import Bury, Retry
from django_dbqueue.models import Job

from .faults import record, wait_for_gate
from .leftovers import leave_open, leave_open_and_fail


class Effect(models.Model):
    """What a job has written. Nothing keeps a second one of the same job out."""

    job = models.BigIntegerField()
    code = models.IntegerField(null=True, unique=True)


class Transfer(Job):
    """Writes an effect, then does what ``action`` says."""

    action = models.CharField(max_length=30, blank=True)
    data = models.JSONField(default=dict)
    log = models.CharField(max_length=500, blank=True)

    class Meta(Job.Meta):
        pass

    class Policy:
        exactly_once = True
        time_to_run = 60
        max_attempts = 3
        backoff = Fixed(3600)

    def run(self) -> None:
        if self.log:
            record(self.log, f"{self.pk} {os.getpid()}")
        Effect.objects.create(job=self.pk)
        if self.action:
            getattr(self, f"do_{self.action}")()

    def do_fork(self) -> None:
        if pid := os.fork():
            os.waitpid(pid, 0)

    do_leave_open = leave_open
    do_leave_open_and_fail = leave_open_and_fail

    def do_fail(self) -> None:
        self.data["changed"] = True
        self.save()
        raise RuntimeError("it does not work")

    def do_retry(self) -> None:
        raise Retry(3600)

    def do_bury(self) -> None:
        raise Bury("not this one")

    def do_save(self) -> None:
        self.data["saved"] = True
        self.save()

    def do_touch(self) -> None:
        self.touch()

    def do_nap(self) -> None:
        time.sleep(self.data["seconds"])

    def do_wait(self) -> None:
        """Until it is killed, or may go on."""
        wait_for_gate(self.log, "go")

    def do_kill(self) -> None:
        if not self.crashes:
            os.kill(os.getpid(), signal.SIGKILL)

    def do_delete(self) -> None:
        self.delete()

    def do_complete(self) -> None:
        self.complete()

    def do_go_on(self) -> None:
        """As if nothing had happened."""
        try:
            Effect.objects.create(job=self.pk, code=1)
            Effect.objects.create(job=self.pk, code=1)
        except Exception:
            self.data["went on"] = True

    def do_set_rollback(self) -> None:
        transaction.set_rollback(True)

    def do_take_over(self) -> None:
        transaction.set_autocommit(True)

    def do_commit(self) -> None:
        """Past Django."""
        connection.connection.commit()

    def do_roll_back(self) -> None:
        """As a database may, where an error is caught that has ended the transaction."""
        connection.connection.rollback()

    def do_break_hook(self) -> None:
        transaction.on_commit(partial(int, "no number"))


class Fleeing(Job):
    """Is deleted as it completes."""

    class Meta(Job.Meta):
        pass

    class Policy:
        exactly_once = True
        time_to_run = 60
        prune_after = 0

    def run(self) -> None:
        Effect.objects.create(job=self.pk)


class Recited(Job):
    """A coroutine."""

    fails = models.BooleanField(default=False)

    class Meta(Job.Meta):
        pass

    class Policy:
        exactly_once = True
        time_to_run = 60
        max_attempts = 1

    async def run(self) -> None:  # type: ignore[override]
        await Effect.objects.acreate(job=self.pk)
        await sync_to_async(self.touch)()
        if self.fails:
            raise RuntimeError("it does not work")
