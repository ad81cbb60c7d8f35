"""What people read is in their language; what machines read, and what is stored, is English."""

import csv
import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.test import Client, RequestFactory, override_settings
from django.utils import timezone, translation

from django_dbqueue.admin.said import in_words
from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.mail.models import Email
from django_dbqueue.models import Worker
from django_dbqueue.monitor.web import HEALTH, healthz_view, status_view
from django_dbqueue.schedules.models import Schedule
from django_dbqueue.schedules.problems import problems_of
from django_dbqueue.states import Status
from django_dbqueue.texts.labels import label
from django_dbqueue.texts.wording import ago, duration, number
from tests.kit.jobs import buried, fresh, overwrite
from tests.kit.mail import finished, letter, queued
from tests.queueapp.models import Note

pytestmark = pytest.mark.django_db(transaction=True)
QUEUES, NOTES = "/admin/dbqueue/queue/", "/admin/queueapp/note/"
TUBES = "/admin/dbqueue_beanstalk/tubejob/"


@pytest.fixture
def german():
    with override_settings(LANGUAGE_CODE="de"):
        yield


@pytest.fixture
def chief():
    client = Client()
    client.force_login(User.objects.create_superuser("chief"))
    return client


def text_of(response):
    assert response.status_code == 200
    return response.content.decode()


def test_the_first_page_is_german_with_german_numbers(german, chief):
    Note.objects.bulk_create([Note(text="") for _ in range(1_234)])
    text = text_of(chief.get(QUEUES))
    assert '<html lang="de"' in text
    assert "Jetzt handeln: queueapp.note, Warteschlange default: kein lebender Worker" in text
    assert "1.000+" in text
    assert "Warteschlangen" in text


def test_the_page_of_a_job_says_in_german_why_it_waits(german, chief):
    job = buried()
    text = text_of(chief.get(f"{NOTES}{job.pk}/change/"))
    assert "Er bleibt, bis ihn jemand mit allen seinen Versuchen wieder" in text
    assert "dbqueue-state-buried" in text  # by which it has its colour
    assert ">vergraben</span>" in text
    assert "Erneut versuchen" in text


def test_an_action_is_told_in_german_and_logged_in_english(german, chief):
    jobs = [buried(), buried()]
    sent = {"action": "kick_selected", "_selected_action": [job.pk for job in jobs]}
    text = text_of(chief.post(NOTES, sent, follow=True))
    assert "Erneut versuchen: 2 geändert." in text
    entry = LogEntry.objects.get()
    assert entry.change_message.startswith("Retry: 2 changed; rows: 2 (")
    assert entry.object_repr == "2 notes"
    assert fresh(jobs[0]).status == Status.READY


def test_the_log_names_models_of_ours_in_english(german, chief):
    jobs = [TubeJob.objects.create(body=b"") for _ in range(2)]
    sent = {"action": "bury_selected", "_selected_action": [job.pk for job in jobs]}
    assert "Tube-Aufträge" in text_of(chief.post(TUBES, sent, follow=True))
    assert LogEntry.objects.get().object_repr == "2 tube jobs"


def test_a_worker_is_asked_in_german_and_that_is_logged_in_english(german, chief):
    worker = Worker.objects.create(uuid="a" * 32, host="h", pid=1, beat_at=timezone.now())
    ask = f"/admin/dbqueue/worker/{worker.pk}/ask/"
    text = text_of(chief.post(ask, {"verb": "drain"}, follow=True))
    assert "gebeten leerzulaufen" in text
    assert LogEntry.objects.get().change_message.startswith("drain: asked to drain: it claims")


def test_a_pause_is_logged_in_english(german, chief):
    chief.post(
        f"{QUEUES}pause/?table=queueapp.note&queue=default",
        {"table": "queueapp.note", "queue": "default", "how": "good", "reason": "paper"},
    )
    said = LogEntry.objects.get().change_message
    assert said.startswith("Paused queueapp.note, queue default, until somebody resumes it: paper")


def test_an_exported_file_is_english(german, chief):
    buried()
    sent = {"action": "export_selected", "select_across": "1", "_selected_action": ["0"]}
    lines = b"".join(chief.post(NOTES, sent).streaming_content).decode()
    [row] = csv.DictReader(StringIO(lines))
    assert row["state"] == "buried"
    assert LogEntry.objects.get().object_repr == "notes"


def test_machines_are_answered_in_english(german):
    Note.objects.create(text="")
    request = RequestFactory().get("/")
    request.user = User.objects.create_superuser("chief")
    with translation.override("de"):
        HEALTH.forget()
        health = healthz_view(request).content.decode()
        found = json.loads(status_view(request).content)
        assert translation.get_language() == "de"
    HEALTH.forget()
    for text in (health, found["verdict"]["sentence"]):
        assert "Act now: queueapp.note, queue default: no living worker serves it." in text
    assert found["queues"][0]["counts"].keys() == {"ready", "delayed", "claimed", "buried"}


def test_a_state_of_an_email_is_a_word_for_programs_and_one_for_people():
    email = finished(letter("anna"))
    waiting = Email.objects.get(pk=queued("anna").pk)
    overwrite(waiting, status=Status.DELAYED.value, retry_at=timezone.now() + timedelta(days=1))
    with translation.override("de"):
        assert (email.mail_state, email.mail_state_word) == ("sent", "gesendet")
        assert fresh(waiting).mail_state.startswith("scheduled for 2")
        assert fresh(waiting).mail_state_word.startswith("vorgesehen für 2")


def test_what_is_wrong_with_a_schedule_is_stored_in_english():
    with translation.override("de"), pytest.raises(ValidationError) as caught:
        Schedule(name="a", timing="sometimes", target="queueapp.Note").clean()
    with translation.override("de"):
        assert "Zeitangabe" in str(caught.value.message_dict["timing"])
        assert problems_of(caught.value).startswith("timing must be 'every N s'")


SAID = {
    "Retry: 3 changed; rows: 2 (11, 12)": "Erneut versuchen: 3 geändert; Zeilen: 2 (11, 12)",
    "Move to a: 1 changed, 2 skipped: their state had moved on; 1 skipped: the queue is full": (
        "Nach a verschieben: 1 geändert, 2 übersprungen: ihr Zustand hatte sich geändert; "
        "1 übersprungen: die Warteschlange ist voll"
    ),
    "Bury: 5 changed; dbqueue bury; rows: 5 (1, ..)": (
        "Vergraben: 5 geändert; dbqueue bury; Zeilen: 5 (1, ..)"
    ),
    "Retry with 60 s to run: 1 changed; failure abc": (
        "Mit 60 s Laufzeit erneut versuchen: 1 geändert; failure abc"
    ),
    "Paused queueapp.note, queue a, until somebody resumes it: why: so": (
        "queueapp.note, Warteschlange a angehalten, bis jemand sie fortsetzt: why: so"
    ),
    "resume: asked to go on: it claims again": "gebeten weiterzumachen: er übernimmt wieder",
    "what a stranger wrote: 3 things": "what a stranger wrote: 3 things",
}


@pytest.mark.parametrize("said", SAID)
def test_what_people_did_is_read_in_german_though_it_is_stored_in_english(said):
    assert in_words(said) == said or said.startswith("resume: ")
    with translation.override("de"):
        assert in_words(said) == SAID[said]


WORDS = {
    "en": ("1 h 30 min", "20 s ago", "1,234,567"),
    "de": ("1 h 30 min", "vor 20 s", "1.234.567"),
    "fr": ("1 h 30 min", "il y a 20 s", "1\xa0234\xa0567"),
    "ja": ("1 時間 30 分", "20 秒前", "1,234,567"),
    None: ("1 h 30 min", "20 s ago", "1,234,567"),
}


@pytest.mark.parametrize("language", WORDS)
def test_times_and_numbers_are_those_of_the_language(language):
    with translation.override(language):
        assert (duration(5400), ago(20), number(1_234_567)) == WORDS[language]


def test_a_column_is_called_as_its_class_says_where_that_says_something():
    meta: Any = Email._meta
    subject, using = map(meta.get_field, ("subject", "using"))
    with translation.override("de"):
        assert (str(subject.verbose_name), str(using.verbose_name)) == ("Betreff", "Mailer")
        given = vars(meta.get_field("queue"))
        before = given["_verbose_name"], given["verbose_name"]
        try:
            given["_verbose_name"] = given["verbose_name"] = "line"
            label(Email)
            assert given["verbose_name"] == "line"
        finally:
            given["_verbose_name"], given["verbose_name"] = before


def test_a_language_without_a_catalogue_reads_english_with_its_own_numbers():
    with translation.override("nl"):
        assert (ago(0.5), number(1000)) == ("0,5 s ago", "1.000")


def test_brazilians_read_the_portuguese_catalogue():
    with translation.override("pt-br"):
        assert ago(20) == "há 20 s"
