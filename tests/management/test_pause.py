"""``dbqueue pause`` and ``dbqueue resume``: which queues, for how long, and why."""

import json
import re

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError
from django.db import OperationalError, connections

from django_dbqueue.fields import DbNow
from django_dbqueue.management import advice, pause
from django_dbqueue.models import Minute, Queue
from django_dbqueue.models.queryset import JobManager
from django_dbqueue.models.queue import is_for_good
from django_dbqueue.operate import pausing
from tests.kit.bounds import limits
from tests.kit.command_line import as_json, dbqueue, fails, refused
from tests.kit.jobs import buried
from tests.kit.overview import OVERVIEW, Away, a_worker
from tests.queueapp.models import Kept, Note

pytestmark = pytest.mark.usefixtures("db_rows")


def paused() -> set[str]:
    return {str(row) for row in Queue.objects.filter(paused_until__gt=DbNow())}


def claims_of(queue: str) -> int:
    return len(Note.objects.claim(10, queue=queue))


def test_a_queue_is_paused_until_it_is_resumed_and_its_jobs_wait():
    for queue in ("default", "slow"):
        Note.objects.create(queue=queue)
    told = dbqueue("pause", "queueapp.Note:slow", "--reason", "the disk is full")
    assert told == "queueapp.note:slow paused until somebody resumes it: the disk is full\n"
    row = Queue.objects.get()
    assert is_for_good(row.paused_until)
    assert row.pause_reason == "the disk is full"
    assert (claims_of("slow"), claims_of("default")) == (0, 1)
    assert dbqueue("resume", "queueapp.Note:slow") == "queueapp.note:slow resumed\n"
    assert claims_of("slow") == 1


def test_a_table_whose_manager_hides_some_jobs_is_paused_as_well(browser, monkeypatch):
    def without_hidden(jobs):
        return jobs._queryset_class(jobs.model, using=jobs._db).exclude(queue="hidden")

    monkeypatch.setattr(JobManager, "get_queryset", without_hidden)
    dbqueue("pause", "queueapp.Note:slow")
    assert Note.objects.paused_queues() == {"slow"}
    dbqueue("resume", "queueapp.Note:slow")
    place = {"table": "queueapp.note", "queue": "fast"}
    more = {"how": "minutes", "minutes": "5", "reason": "tea"}
    assert browser.post(f"{OVERVIEW}pause/", place | more).status_code == 302
    assert Note.objects.paused_queues() == {"fast"}
    assert browser.post(f"{OVERVIEW}resume/", place).status_code == 302
    assert Note.objects.paused_queues() == set()


@pytest.fixture
def away(settings):
    """One table's database."""
    found = Away(Kept)
    settings.DATABASE_ROUTERS = [found]
    yield
    settings.DATABASE_ROUTERS = []
    found.end()


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_what_was_done_before_a_database_failed_is_told(verb):
    printed, why = fails(1, verb, "queueapp.note:slow", "queueapp.kept:slow")
    assert printed.startswith(f"queueapp.note:slow on default {verb}d")
    assert why.startswith("queueapp.kept:slow on away: ")
    assert why.endswith(". What was done before is told above.")
    assert paused() == ({"queueapp_note:slow"} if verb == "pause" else set())
    with pytest.raises(CommandError, match="unable to open"):
        dbqueue(verb, "queueapp.kept:slow")


@pytest.mark.usefixtures("away")
def test_failed_jobs_are_listed_of_the_tables_that_can_be_asked():
    job = buried()
    printed, why = fails(1, "failed", "queueapp.kept", "queueapp.note", "--json")
    assert [one["id"] for one in json.loads(printed)["failed"]] == [job.pk]
    assert why == "queueapp.kept on away cannot be asked: unable to open database file"
    with pytest.raises(CommandError, match="unable to open"):
        dbqueue("failed", "queueapp.kept")


@pytest.mark.usefixtures("away")
def test_a_database_that_is_away_is_asked_once_for_its_failed_jobs_and_what_to_do_is_told(
    monkeypatch,
):
    wrapper, tries = connections["away"], []
    connect = wrapper.connect
    monkeypatch.setattr(wrapper, "connect", lambda: (tries.append(1), connect()))
    monkeypatch.setattr(advice, "missing_migrations", lambda _aliases: "Run migrate.")
    _, why = fails(1, "failed", "queueapp.kept:a", "queueapp.kept:b", "queueapp.note")
    assert why.count("cannot be asked: unable to open database file") == 2
    assert why.endswith("\nRun migrate.")
    assert len(tries) == 1


@pytest.mark.usefixtures("away")
def test_failed_jobs_are_listed_where_another_database_has_no_driver(monkeypatch):
    def connect():
        raise ImproperlyConfigured("there is no driver")

    monkeypatch.setattr(connections["away"], "connect", connect)
    job = buried()
    printed, why = fails(1, "failed", "queueapp.kept", "queueapp.note", "--json")
    assert [one["id"] for one in json.loads(printed)["failed"]] == [job.pk]
    assert why == "queueapp.kept on away cannot be asked: there is no driver"


@pytest.mark.usefixtures("away")
def test_workers_are_listed_of_the_databases_that_can_be_asked():
    worker = a_worker()
    for words in ([], ["--json"]):
        printed, why = fails(1, "workers", *words)
        assert worker.host in printed
        assert why.startswith("database 'away' cannot be asked: ")
    with pytest.raises(CommandError, match="unable to open"):
        dbqueue("workers", "--database", "away")


def busy(*queues: str) -> None:
    for queue in queues:
        Minute.objects.create(job_table="queueapp_note", queue=queue, minute=1, completed=1)


def test_of_a_queue_in_which_nothing_happened_one_of_a_like_name_is_told():
    busy("promo", "slow")
    names = [f"queueapp.Note:{name}" for name in ("prmo", "prmo", "slow", "later")]
    told = dbqueue("pause", *names).splitlines()
    words = "nothing happened in queueapp.note:prmo in the last 7 days"
    assert told[-1] == f"{words}; did you mean queueapp.note:promo?"
    assert "happened" not in " ".join(told[:-1])
    assert paused() == {f"queueapp_note:{queue}" for queue in ("prmo", "slow", "later")}


def test_lanes_make_their_queue_busy_and_so_does_another_table_that_is_named():
    busy("promo@news", "prom")
    with limits(rate="5/s", rate_key="{text}"):
        assert "happened" not in dbqueue("pause", "queueapp.Note:promo")
    assert "happened" not in dbqueue("pause", "--queue=prom", "queueapp.Note", "queueapp.Kept")


def test_of_more_queues_than_are_looked_at_none_is_taken_for_misspelt():
    busy(*(f"q{number:03}" for number in range(150)))
    assert "happened" not in dbqueue("pause", "queueapp.Note:q149")


def test_a_pause_holds_where_the_tables_of_its_notes_are_not_there(monkeypatch):
    monkeypatch.setattr(Minute._meta, "db_table", "not_migrated")
    assert "paused" in dbqueue("pause", "queueapp.Note:prmo")
    assert paused() == {"queueapp_note:prmo"}


def test_a_lane_whose_queue_is_still_paused_is_told():
    with limits(rate="5/s", rate_key="{text}"):
        for queue in ("default", "default@news"):
            Note.objects.pause(queue)
        told = dbqueue("resume", "queueapp.Note:default@news")
        assert told == "queueapp.note:default@news resumed, but its queue is still paused\n"
        assert dbqueue("resume", "queueapp.Note:default") == "queueapp.note:default resumed\n"


def test_a_pause_for_a_time_ends_by_itself():
    told = dbqueue("pause", "queueapp.Note:slow", "--for", "10m")
    assert re.match(r"queueapp.note:slow paused until \d{4}-\d\d-\d\d \d\d:\d\d\n$", told)
    soon = Queue.objects.filter(paused_until__gt=DbNow(500), paused_until__lte=DbNow(600))
    assert soon.count() == 1


def test_a_queue_is_named_with_its_table_or_for_several_tables():
    found = as_json("pause", "queueapp.Note", "queueapp.Kept", "--queue=a", "--queue=b")
    assert [(one["table"], one["queue"]) for one in found["queues"]] == [
        *(("queueapp.note", "a"), ("queueapp.note", "b")),
        *(("queueapp.kept", "a"), ("queueapp.kept", "b")),
    ]
    assert paused() == {f"queueapp_{table}:{name}" for table in ("note", "kept") for name in "ab"}


def test_a_table_without_a_queue_means_all_of_its_queues():
    Note.objects.create(queue="slow")
    Kept.objects.create()
    dbqueue("pause", "queueapp.Note")
    assert claims_of("slow") == claims_of("default") == 0
    assert len(Kept.objects.claim()) == 1
    dbqueue("resume", "queueapp.Note")
    assert claims_of("slow") == 1


def test_everything_is_paused_and_resumed_at_once():
    dbqueue("pause", "queueapp.Note:other")
    told = dbqueue("pause", "--all", "--reason=a migration")
    assert "everything on default paused until somebody resumes it: a migration" in told
    # Also queues that nobody knew then.
    for queue in ("slow", "other"):
        Note.objects.create(queue=queue)
    Kept.objects.create()
    assert claims_of("slow") == 0
    assert Kept.objects.claim() == []
    assert "everything on default resumed" in dbqueue("resume", "--all")
    assert claims_of("slow") == 1
    assert len(Kept.objects.claim()) == 1
    assert claims_of("other") == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "Name TABLE:QUEUE"),
        (["--all", "queueapp.Note"], "neither"),
        (["queueapp.Kept", "queueapp.Note:a", "--queue=b"], "names its queue"),
        (["queueapp.Note:a", "queueapp.Nothing:a"], "is no queue table"),
        (["queueapp.Note:mail-*"], "is a pattern"),
        (["--queue=*"], "is a pattern"),
        (["--queue", "é" * 101], "the limit is 200"),
        (["queueapp.Note:a", "--reason", "x" * 501], "reason"),
    ],
)
def test_what_is_unclear_is_refused_and_pauses_nothing(args, words):
    assert words in refused("pause", *args)
    assert paused() == set()


@pytest.mark.parametrize("text", ["0", "-1", "10 minutes", "m", "1000000d", "inf", "nan", ""])
def test_a_time_that_is_none_is_refused(text):
    with pytest.raises(CommandError, match="--for"):
        dbqueue("pause", "queueapp.Note:a", f"--for={text}")
    assert paused() == set()


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5h", 5400), ("1h30m", 5400), ("2w", 1_209_600)]
)
def test_times_have_units(text, seconds):
    dbqueue("pause", "queueapp.Note:a", "--for", text)
    about = {"paused_until__gt": DbNow(seconds - 60), "paused_until__lte": DbNow(seconds)}
    assert Queue.objects.filter(**about).exists()


def test_who_resumes_less_than_is_paused_is_told_of_the_rest():
    dbqueue("pause", "queueapp.Note:slow")
    dbqueue("pause", "queueapp.Note")
    told = dbqueue("resume", "queueapp.Note:slow")
    assert told == "queueapp.note:slow resumed, but its whole table is still paused\n"
    dbqueue("pause", "--all")
    lines = dbqueue("resume", "queueapp.Note", "queueapp.Kept:slow").splitlines()
    assert lines == [
        "queueapp.note resumed, but everything is still paused",
        "queueapp.kept:slow resumed, but everything is still paused",
    ]
    dbqueue("resume", "--all")
    assert dbqueue("resume", "queueapp.Note:slow") == "queueapp.note:slow resumed\n"


def test_what_stays_paused_by_itself_is_named():
    dbqueue("pause", "queueapp.note:a", "queueapp.note:b", "queueapp.small")
    names = "queueapp.note:a, queueapp.note:b"
    said = dbqueue("resume", "queueapp.note")
    assert said == f"queueapp.note resumed\nstill paused by themselves: {names}\n"
    said = dbqueue("resume", "--all")
    assert "still paused by themselves: " in said
    assert names in said
    assert "queueapp.small" in said
    assert "themselves" not in dbqueue("resume", "queueapp.note:a")


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_what_was_resumed_before_its_own_database_failed_is_told(monkeypatch, words):
    dbqueue("pause", "queueapp.note")
    asks = pausing.resume, pausing.still_paused, pausing.paused_within
    left = [1]

    def gone(*_):
        raise OperationalError("server has gone away")

    def resume(one):
        if not left:
            for ask in asks:
                monkeypatch.setattr(pause, ask.__name__, gone)
            gone()
        left.clear()
        asks[0](one)

    monkeypatch.setattr(pause, "resume", resume)
    printed, why = fails(1, "resume", "queueapp.note", "queueapp.kept:slow", *words)
    assert '"table": "queueapp.note"' in printed if words else printed == "queueapp.note resumed\n"
    assert why.startswith("queueapp.kept:slow on default: server has gone away.")
    assert not paused()


@pytest.mark.usefixtures("away")
def test_what_was_done_before_a_database_without_a_driver_is_told_and_what_to_do(monkeypatch):
    def connect():
        raise ImproperlyConfigured("there is no driver")

    monkeypatch.setattr(connections["away"], "connect", connect)
    monkeypatch.setattr(advice, "missing_migrations", lambda _aliases: "Run migrate.")
    printed, why = fails(1, "pause", "queueapp.note:slow", "queueapp.kept:slow")
    assert printed.startswith("queueapp.note:slow on default paused")
    assert why.startswith("queueapp.kept:slow on away: there is no driver. What was done")
    assert why.endswith("\nRun migrate.")
