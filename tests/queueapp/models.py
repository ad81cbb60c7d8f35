"""Queue tables that the tests work with; tables are made without migrations."""

import ctypes
import faulthandler
import os
import signal
import socket
import sys
import time
import uuid

from django.db import models, transaction

from django_dbqueue.backoff import Fixed
from django_dbqueue.exceptions import Bury, Retry
from django_dbqueue.fields import InstantField
from django_dbqueue.models import ArchivedJob, Job

from .answering import Answering  # noqa: F401  # a table
from .called import Called  # noqa: F401  # a table
from .chores import ArchivedChore, Chore, Errand  # noqa: F401  # tables
from .faults import Awaited, Deed, Gathered, Marked, Once, Prompt, Yielding, record, wait_for_gate  # noqa: F401  # tables
from .fetching import Fetched, FetchedEach  # noqa: F401  # tables
from .gil import hold_gil
from .keyed import ArchivedShared, Ordered, Shared  # noqa: F401  # tables
from .leftovers import execute, leave_autocommit_off, leave_open, leave_open_and_fail
from .once import Effect, Fleeing, Recited, Transfer  # noqa: F401  # tables
from .orphans import Friend, Gallery, Person, Portrait  # noqa: F401  # tables
from .planner import planner_settings
from .sealed import Sealed, SealedBatch  # noqa: F401  # tables
from .staged import StagedArchived, StagedFleeting, StagedPruned  # noqa: F401  # tables
from .traced import Watched, WatchedBatch, WatchedCoroutine  # noqa: F401  # tables
from .versions import Rolled, Versioned  # noqa: F401  # tables


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Note(Job):
    """Does what ``action`` says, and leaves a line in the file ``log``."""

    text = models.TextField(blank=True)
    action = models.CharField(max_length=30, blank=True)
    seconds = models.FloatField(default=0)
    log = models.CharField(max_length=500, blank=True)

    class Meta(Job.Meta):
        pass

    class Policy:
        time_to_run = 60
        max_attempts = 3
        backoff = Fixed(0.2)

    def run(self) -> None:
        if self.log and self.action != "note_time":
            record(self.log, f"{self.pk} {self.attempts} {os.getpid()}")
        if self.seconds:
            time.sleep(self.seconds)
        if self.action:
            getattr(self, f"do_{self.action}")()

    def do_fail(self) -> None:
        raise RuntimeError(f"note {self.text} does not work")

    def do_silence(self) -> None:
        raise Unspeakable

    def do_retry(self) -> None:
        raise Retry(3600, "come back in an hour")

    def do_bury(self) -> None:
        raise Bury("nobody can do this")

    def do_crash(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def do_note_time(self) -> None:
        record(self.log, f"{time.monotonic()}")

    def do_save(self) -> None:
        self.text += " and saved"
        self.save()

    def do_touch(self) -> None:
        for _ in range(6):
            time.sleep(1)
            self.touch()

    def do_delete(self) -> None:
        self.delete()

    def do_exit(self) -> None:
        sys.exit(7)

    def do_enqueue(self) -> None:
        Note.objects.create()

    def do_query(self) -> None:
        Note.objects.count()

    def do_complete(self) -> None:
        self.complete()

    def do_fork(self) -> None:
        if pid := os.fork():
            os.waitpid(pid, 0)

    def do_fork_and_fail(self) -> None:
        self.do_fork()
        self.do_fail()

    do_leave_open = leave_open
    do_leave_open_and_fail = leave_open_and_fail
    do_leave_autocommit_off = leave_autocommit_off
    do_execute = execute

    def do_undone(self) -> None:
        with transaction.atomic():
            self.complete()
            transaction.set_rollback(True)

    def do_settings(self) -> None:
        record(self.log, planner_settings())

    def do_spin(self) -> None:
        while True:
            pass

    def do_spin_deaf(self) -> None:
        faulthandler.unregister(signal.SIGUSR1)
        self.do_spin()

    def do_listen(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.accept()

    def do_segfault(self) -> None:
        ctypes.string_at(0)

    def do_wait_at_gate(self) -> None:
        wait_for_gate(self.log)

    def do_hold_gil_after_the_gate(self) -> None:
        self.do_wait_at_gate()
        self.do_hold_gil()

    def do_hold_gil(self) -> None:
        hold_gil(float(self.text))


class Mailed(Job):
    """Commits every outcome at once."""

    log = models.CharField(max_length=500, blank=True)

    class Meta(Job.Meta):
        pass

    class Policy:
        finish = "each"

    def run(self) -> None:
        record(self.log, self.pk)


class Kept(Job):
    """Keeps its dedup_key until it is done, and moves to an archive."""

    text = models.TextField(blank=True)

    class Meta(Job.Meta):
        pass

    class Policy:
        dedup_until = "done"
        archive = "queueapp.ArchivedKept"
        archive_after = 3600
        prune_after = 7200

    def run(self) -> None:
        pass


class ArchivedKept(ArchivedJob):
    text = models.TextField(blank=True)

    class Meta(ArchivedJob.Meta):
        pass


class Strict(Job):
    """Is claimed in exact order, even by many."""

    class Meta(Job.Meta):
        pass

    class Policy:
        strict_order = True

    def run(self) -> None:
        pass


class Uuid(Job):
    """Has keys that do not grow: allowed, with a warning."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    text = models.TextField(blank=True)

    class Meta(Job.Meta):
        pass

    def run(self) -> None:
        pass


class Unique(Job):
    """Has a constraint of its own."""

    code = models.IntegerField(unique=True)

    class Meta(Job.Meta):
        pass

    def run(self) -> None:
        pass


class Pruned(Job):
    """Keeps finished jobs for an hour."""

    class Meta(Job.Meta):
        pass

    class Policy:
        prune_after = 3600

    def run(self) -> None:
        pass


class Big(Job):
    """Holds a million finished jobs while the plans of the statements are looked at."""

    class Meta(Job.Meta):
        pass

    class Policy:
        archive = "queueapp.ArchivedBig"
        archive_after = 3600
        prune_after = 7200

    def run(self) -> None:
        pass


class ArchivedBig(ArchivedJob):
    class Meta(ArchivedJob.Meta):
        pass


class Small(Job):
    """The like of ``Big``, and always small."""

    class Meta(Job.Meta):
        pass

    def run(self) -> None:
        pass


class Fleeting(Job):
    """Is deleted as it completes."""

    class Meta(Job.Meta):
        pass

    class Policy:
        prune_after = 0

    def run(self) -> None:
        pass


class Batch(Job):
    """Runs many at once."""

    text = models.TextField(blank=True)
    log = models.CharField(max_length=500, blank=True)

    class Meta(Job.Meta):
        pass

    @classmethod
    def run_batch(cls, jobs: list["Batch"]) -> None:
        record(jobs[0].log, f"{len(jobs)} jobs")
        if jobs[0].text == "slow":
            time.sleep(60)


class Moody:
    """A backoff that works until it is needed."""

    works = True

    def seconds(self, attempt: int) -> float:
        return [60.0][0 if self.works else attempt]


class BrokenBackoff(Job):
    """Its backoff is of no use, which no check can see."""

    fails = models.BooleanField(default=False)

    class Meta(Job.Meta):
        pass

    class Policy:
        backoff = Moody()

    def run(self) -> None:
        if self.fails:
            Moody.works = False
            raise RuntimeError("it does not work")


class Owner(models.Model):
    """Has columns of the same names as a job's."""

    name = models.CharField(max_length=20)
    queue = models.CharField(max_length=20, default="")
    status = models.SmallIntegerField(default=0)
    failed_at = models.DateTimeField(null=True)


class Everything(Job):
    """One column of every field type that Django has on all three databases."""

    a_bool = models.BooleanField(default=True)
    a_null_bool = models.BooleanField(null=True)
    a_char = models.CharField(max_length=50)
    a_text = models.TextField()
    a_slug = models.SlugField()
    a_url = models.URLField()
    an_email = models.EmailField()
    an_int = models.IntegerField()
    a_small = models.SmallIntegerField()
    a_big = models.BigIntegerField()
    a_positive = models.PositiveIntegerField()
    a_positive_big = models.PositiveBigIntegerField()
    a_positive_small = models.PositiveSmallIntegerField()
    a_float = models.FloatField()
    a_decimal = models.DecimalField(max_digits=12, decimal_places=4)
    a_date = models.DateField()
    a_time = models.TimeField()
    a_datetime = models.DateTimeField()
    an_instant = InstantField()
    a_duration = models.DurationField()
    a_uuid = models.UUIDField(default=uuid.uuid4)
    a_json = models.JSONField()
    a_binary = models.BinaryField()
    an_ip = models.GenericIPAddressField()
    an_owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="+")
    a_file_path = models.FilePathField(path="/", max_length=100)
    generated = models.GeneratedField(
        expression=models.F("an_int") + 1, output_field=models.IntegerField(), db_persist=True
    )

    class Meta(Job.Meta):
        pass

    def run(self) -> None:
        self.a_text = f"{self.a_text} ran"
        self.save()


class Filed(Job):
    """Has a column that does more than keep its value."""

    a_file = models.FileField()

    class Meta(Job.Meta):
        pass

    def run(self) -> None:
        pass
