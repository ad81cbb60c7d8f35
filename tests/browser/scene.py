"""What is to be seen: jobs in every state, workers in every mood, mail of every fate."""

import json
import time
from contextlib import suppress
from types import SimpleNamespace

from django.contrib.auth.models import User

from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.bulk.chosen import Chosen
from django_dbqueue.bulk.models import Asker, BulkAction
from django_dbqueue.fields import DbNow
from django_dbqueue.mail.deliveries import Outcome
from django_dbqueue.mail.models import Email, Mailer, Suppression
from django_dbqueue.mail.models.suppression import Reason
from django_dbqueue.models import Minute, Queue, Worker
from django_dbqueue.models.minute import RAN, WAITED
from django_dbqueue.operate.moments import now_of
from django_dbqueue.operate.recording import record
from django_dbqueue.schedules.firing import run_now
from django_dbqueue.schedules.models import Schedule
from django_dbqueue.states import Status
from django_dbqueue.tasks.models import AsyncTask, Task
from django_dbqueue.testing import InlineWorker
from testproject.shop.images import make_thumbnail, paint
from testproject.shop.models import Photo, Thumbnail
from tests.kit.failures import count
from tests.kit.jobs import claim_one, fresh, overwrite
from tests.kit.mail import archived, enqueue, finished, letter, queue_into_memory, queued
from tests.kit.mail_admin import fancy_letter
from tests.kit.schedules import scheduled
from tests.queueapp.models import ArchivedKept, Kept, Note
from tests.tasks import calls

TABLE, JOB_TABLE = "queueapp.note", Note._meta.db_table


class Settings:
    """A project that queues its mail."""

    def __init__(self):
        queue_into_memory(self)


def build(text="a note", queue="default", error="it does not work"):
    """All of it, with these words wherever strangers' words may stand."""
    for job_table, share in ((JOB_TABLE, 1), (Email._meta.db_table, 3)):
        build_minutes(job_table, queue, share)
    build_failures(queue, error)
    Queue.objects.pause(JOB_TABLE, "paused", 3600, text)
    jobs = build_jobs(text, queue, error)
    build_deeds(text, queue, jobs)
    return SimpleNamespace(
        **jobs,
        **build_workers(text, error),
        **build_thumbnails(text),
        **build_mail(text, error),
        # Its worker shall find no schedule that is due.
        **build_tasks(text),
        **build_schedules(text, error),
        **build_tube_jobs(text, queue, error),
        **build_bulk_actions(text, queue, error),
    )


def build_jobs(text, queue, error):
    Note.objects.bulk_create([Note(text=f"{text} {n}", queue=queue) for n in range(8)])
    return {
        "done": note(text, queue, lambda job: job.complete()),
        "buried": note(text, queue, lambda job: job.bury(error)),
        "failed": note(text, queue, lambda job: job.fail(raised(error), 600)),
        "late": note(text, queue, lambda job: job.fail(raised(error), 7200)),
        "claimed": note(text, queue, lambda job: None),
        "ready": Note.objects.create(text=text, queue=queue),
        "waiting": Note.objects.create(text=text, queue="paused"),
        "delayed": Note.objects.enqueue(text=text, queue=queue, delay=90)[0],
        "old": old(text, queue),
    }


def build_deeds(text, queue, jobs):
    """Where somebody may have done them."""
    user = User.objects.filter(is_superuser=True).first()
    if user is not None:
        record(user.pk, Note, [jobs["ready"]], f"Prioritize to 5: 1 changed; {text}"[:400])
        some = [jobs["failed"], jobs["late"], jobs["buried"]]
        record(user.pk, Note, some, "Retry: 3 changed", filters=f"queue={queue}")


def note(text, queue, end):
    job = Note.objects.create(text=text, queue="apart")
    end(claim_one(Note, queue="apart"))
    overwrite(job, queue=queue)
    return fresh(job)


def raised(error):
    """An exception that has a traceback."""
    with suppress(RuntimeError):
        raise RuntimeError(error)
    try:
        raise RuntimeError(error)
    except RuntimeError as caught:
        return caught


def old(text, queue):
    job = Kept.objects.create(text=text, queue=queue)
    Kept.objects.filter(pk=job.pk).cancel()
    return ArchivedKept.objects.get()


def build_workers(text, error):
    fields = {"host": text[:255], "memory": 64 << 20, "serves": [TABLE, "dbqueue_mail.email"]}
    # Those who live go on living while the pages are looked at.
    beating, lately, long_ago = DbNow(plus=3600), DbNow(plus=-2), DbNow(plus=-300)
    pool = {"processes": 2, "least": 1, "most": 4, "slots": 4}
    return {
        "worker": Worker.objects.create(
            uuid="a" * 32,
            pid=11,
            beat_at=beating,
            jobs_per_minute=90,
            running=running(),
            pool=pool,
            **fields,
        ),
        "troubled": Worker.objects.create(
            uuid="b" * 32, pid=12, beat_at=beating, trouble=error[:200], **fields
        ),
        "silent": Worker.objects.create(uuid="c" * 32, pid=13, beat_at=long_ago, **fields),
        "stopped": Worker.objects.create(
            uuid="d" * 32, pid=14, stopped_at=lately, stop_reason=text[:200], **fields
        ),
    }


def build_schedules(text, error):
    """One that has ticked, and is broken now."""
    schedule = scheduled("nightly", arguments={"text": text}, priority=0)
    for _ in range(12):
        run_now(schedule, text)
    schedule.ticks_so_far.filter(pk__gt=schedule.ticks_so_far.first().pk + 9).update(job="")
    Schedule.objects.update(error=error[:500])
    return {"schedule": schedule}


def build_tasks(text):
    """One that failed, one that runs and says how far it is, and one of a coroutine function."""
    calls.fail.enqueue(text)
    with InlineWorker("dbqueue_tasks.task") as worker:
        worker.run()
    failed = Task.objects.get()
    calls.walk.enqueue(10)
    [walking] = Task.objects.claim()
    Task.objects.filter(pk=walking.pk).update(progress={"done": 3, "total": 10, "note": text})
    calls.slow_double.enqueue(1)
    AsyncTask.objects.update(progress={"done": 1, "total": None, "note": text})
    return {"task": failed, "async_task": AsyncTask.objects.get()}


def build_tube_jobs(text, queue, error):
    """One whose body no text is, and one that a client buried."""
    TubeJob.objects.create(body=b"\x00\xff", queue=queue, ttr=60)
    TubeJob.objects.create(body=json.dumps({"text": text}).encode(), queue="apart", reserves=2)
    job = claim_one(TubeJob, queue="apart")
    job.bury(error)
    overwrite(job, queue=queue)
    return {"tube_job": fresh(job)}


def build_bulk_actions(text, queue, error):
    """One that runs, one that has failed, and one that waits."""
    chosen, now = Chosen(Status.BURIED, queue), now_of("default")
    times = {"created_at": {"from": now, "until": now}}
    made = [
        BulkAction.ask(verb, Note, "default", one, now, Asker("", text[:200]), values)[0]
        for verb, one, values in (
            ("kick", chosen, {"due": now, "time_to_run": 60}),
            ("move", Chosen(times=times), {"queue": "another"}),
            ("resend", Chosen(), {}),
        )
    ]
    counts = {"changed": 2, "skipped": 1, "twins": 1, "no_room": 0, "barred": 0}
    running, broken, _waiting = made
    BulkAction.objects.filter(pk=broken.pk).update(queue="apart")
    claim_one(BulkAction)
    overwrite(running, total=12_000, seen=3, counts=counts)
    claim_one(BulkAction, queue="apart").bury(error)
    overwrite(broken, queue=queue)
    return {"bulk_action": fresh(running), "broken_bulk_action": fresh(broken)}


def running():
    kept = {"job": "queueapp.kept 7", "seconds": 290.0, "limit": 300.0}
    late = {"job": "dbqueue_mail.email 3", "seconds": 70.0, "limit": 60.0}
    return {"21": [{"job": f"{TABLE} 1", "seconds": 3.5, "limit": 60.0}, kept, late], "22": []}


def build_minutes(job_table, queue, share):
    """The last two hours."""
    now = int(time.time() // 60)
    Minute.objects.bulk_create(
        Minute(
            job_table=job_table,
            queue=queue,
            minute=now - age,
            completed=(40 + age % 17) * share,
            failed=age % 5,
            buried=age % 31 == 0,
            backlog=100 + age,
            **{WAITED[4]: 30, WAITED[6]: 10, RAN[3]: 35, RAN[5]: 5},
        )
        for age in range(120)
    )


def build_failures(queue, error):
    """Three kinds, of the last hours."""
    for n, one in enumerate((RuntimeError(error), ValueError(error), OSError("no paper"))):
        for ago in range(0, 600, 90):
            count(3 + n, one, queue, ago)


def build_thumbnails(text):
    image = paint(1, 200, 150)
    photo = Photo.objects.create(title=text[:100], image=image)
    png = make_thumbnail(image, 80, 60)
    return {"thumbnail": Thumbnail.objects.create(photo=photo, png=png), "photo": photo}


def build_mail(text, error):
    mailer = Mailer.objects.named("smtp")
    Mailer.objects.pause("smtp", 300, text)
    Suppression.objects.suppress("gone@x.example", Reason.BOUNCE, text)
    fields = {"subject": text, "body": text}
    made = {
        "sent": finished(letter("anna", "bert", **fields), anna=Outcome.DELIVERED),
        "refused": finished(letter("anna", **fields), failed=True, anna=Outcome.REFUSED),
        "fancy": finished(fancy_letter()),
        "doubtful": finished(letter("anna", **fields), failed=True, anna=Outcome.IN_DOUBT),
        "archived": archived(finished(letter("anna", **fields))),
        "retrying": enqueue(letter("carl", **fields), queue="apart"),
        "held": enqueue(letter("emil", **fields), queue="held"),
        "mailer": fresh(mailer),
        "suppression": Suppression.objects.get(),
    }
    claim_one(Email, queue="apart").fail(raised(error), 600)
    claim_one(Email, queue="held")
    return made | {"unsent": queued("dora", **fields)}
