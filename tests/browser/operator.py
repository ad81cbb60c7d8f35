"""A person at the pages, whose clicks and keys are counted, and what there is for them to do."""

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.db.models import F

from benchmarks.admin_rows import fill
from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle.errors import entry
from django_dbqueue.lifecycle.failures import failure_of
from django_dbqueue.mail.models import Email
from django_dbqueue.metrics.failures import rows_of
from django_dbqueue.metrics.recorder import this_minute
from django_dbqueue.models import Worker
from django_dbqueue.operate.recording import record
from django_dbqueue.states import Status
from tests.browser.pages import QUEUE
from tests.kit.jobs import overwrite
from tests.kit.mail import queued

LOST = "anna@lost.example"
REFUSED = entry(ConnectionRefusedError("the mail server is away"), attempt=3, owner="w", seconds=1)
REFUSED_JOBS = 300
PATIENCE_MS = 30_000
WORKER = "f" * 32
JOB_TABLE = Email._meta.db_table


@dataclass(frozen=True)
class Took:
    """One thing that was done: so many clicks and keys, and seconds until the answer was there."""

    task: str
    clicks: int
    keys: int
    seconds: float

    def __str__(self):
        return f"| {self.task} | {self.clicks} | {self.keys} | {self.seconds:.1f} |"


@dataclass
class Operator:
    """Does nothing on a page but by these verbs. A text that is pasted is one press of keys, a
    choice from a list two clicks."""

    browse: Any
    took: list[Took] = field(default_factory=list)

    @contextmanager
    def task(self, name):
        """From the opening of the page of the queues until its end."""
        self.clicks = self.keys = 0
        began = time.monotonic()
        self.page = self.browse(QUEUE)
        yield self.page
        self.took.append(Took(name, self.clicks, self.keys, time.monotonic() - began))

    def click(self, what, *, leads=True):
        """``leads``: to another page, which is there afterwards."""
        self.clicks += 1
        if not leads:
            what.click()
            return
        with self.page.expect_navigation(timeout=PATIENCE_MS):
            what.click()

    def press(self, key, *, leads=False):
        self.keys += 1
        if not leads:
            self.page.keyboard.press(key)
            return
        with self.page.expect_navigation(timeout=PATIENCE_MS):
            self.page.keyboard.press(key)

    def paste(self, text):
        self.keys += 1
        self.page.keyboard.insert_text(text)

    def choose(self, select, value):
        self.clicks += 2
        select.select_option(value)

    def search(self, text):
        self.press("/")
        self.paste(text)
        self.press("Enter", leads=True)

    def act_on_all(self, action):
        """The action, for all that match, and the button; the question is there."""
        form = self.page.locator("#changelist-form .actions").first
        self.choose(form.locator("select[name=action]"), action)
        self.click(form.locator("input[name=everything]"), leads=False)
        self.click(form.locator("button[name=index]"))

    def confirm(self):
        self.click(self.page.locator("#content form input[type=submit]").last)

    def table(self):
        lines = ["| task | clicks | keys | seconds |", "|---|---:|---:|---:|"]
        return "\n".join([*lines, *map(str, self.took)])


def build(rows, seed):
    """So many mails, and as many in the archive; one that is looked for, some that failed lately, a
    worker that is stuck, and what somebody did."""
    for _ in fill(rows, seed):
        pass
    lost = _failed(LOST)
    for _ in range(REFUSED_JOBS - 1):
        _failed()
    failure = failure_of(REFUSED)
    minute = this_minute("default")
    for counts, number in rows_of("default", JOB_TABLE, "default", minute, {failure: 900}):
        counts.update(failed=F("failed") + number)
    stuck = queued()
    overwrite(
        stuck,
        status=Status.CLAIMED,
        owner=f"{WORKER}.1-1",
        dequeued_time=DbNow(plus=-295),
        retry_at=DbNow(plus=30),
        attempts=1,
    )
    job = {"job": f"dbqueue_mail.email {stuck.pk}", "seconds": 295.0, "limit": 300.0}
    Worker.objects.create(
        uuid=WORKER,
        host="mail-3",
        pid=4711,
        serves=["dbqueue_mail.email"],
        beat_at=DbNow(plus=3600),
        running={"1": [job]},
    )
    user = User.objects.filter(is_superuser=True).first()
    record(user.pk, Email, [lost], "Prioritize to 5: 1 changed")
    return lost, stuck


def _failed(*to):
    """Mail that failed just now."""
    email = queued(*to)
    overwrite(
        email,
        status=Status.BURIED,
        retry_at=None,
        finished_at=DbNow(),
        failed_at=DbNow(),
        attempts=3,
        errors=[REFUSED],
        failure=failure_of(REFUSED).fingerprint,
    )
    return email
