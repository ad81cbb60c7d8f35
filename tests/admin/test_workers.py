"""The page of the workers, and what they can be asked for there."""

import pytest
from django.contrib.admin.models import LogEntry

from django_dbqueue.fields import DbNow
from django_dbqueue.models import Worker
from tests.kit.overview import CANARY, WORKERS, a_worker, text_of
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")


def act(client, verb, *workers):
    data = {"action": f"{verb}_selected", "_selected_action": [one.pk for one in workers]}
    return client.post(WORKERS, data, follow=True)


def ask(client, worker, verb):
    return client.post(f"{WORKERS}{worker.pk}/ask/", {"verb": verb}, follow=True)


def asked(worker):
    """Whether it was asked to stop, and to drain."""
    row = Worker.objects.get(pk=worker.pk)
    return row.stop_requested_at is not None, row.drain_requested_at is not None


@pytest.mark.parametrize("how", [act, lambda client, verb, one: ask(client, one, verb)])
def test_workers_are_asked_to_stop_to_restart_to_drain_and_to_go_on(browser, how):
    worker, other = a_worker(), a_worker(host="other")
    LogEntry.objects.all().delete()
    assert "claims nothing more, finishes what it has, and lives on" in text_of(
        how(browser, "drain", worker)
    )
    assert asked(worker) == (False, True)
    assert "draining" in text_of(browser.get(WORKERS))
    text_of(how(browser, "resume", worker))
    assert asked(worker) == (False, False)
    assert asked(other) == (False, False)
    said = "asked to stop: it finishes what it runs (up to 30 s), then exits"
    assert said in text_of(how(browser, "stop", worker))
    assert asked(worker) == (True, False)
    text_of(how(browser, "restart", other))
    assert asked(other) == (True, False)
    restarts = Worker.objects.filter(restart_requested=True)
    assert [row.pk for row in restarts] == [other.pk]
    entries = LogEntry.objects.order_by("pk").values_list("object_id", "change_message")
    assert [key for key, _ in entries] == [worker.pk] * 3 + [other.pk]
    verbs = [text.partition(":")[0] for _, text in entries]
    assert verbs == ["drain", "resume", "stop", "restart"]


def test_whoever_is_gone_is_asked_for_nothing(browser):
    silent, stopped = a_worker(beat_at=DbNow(plus=-60)), a_worker(host="gone")
    Worker.objects.filter(pk=stopped.pk).sign_off("SIGTERM")
    LogEntry.objects.all().delete()
    text = text_of(act(browser, "stop", silent, stopped))
    assert text.count("not alive, so that nothing was asked of it") == 2
    assert asked(silent) == asked(stopped) == (False, False)
    assert not LogEntry.objects.exists()


def test_a_reader_sees_workers_and_asks_nothing_of_them(people):
    worker = a_worker()
    reader = people("view_worker")
    assert "stop_selected" not in text_of(reader.get(WORKERS))
    assert "Ask to stop" not in text_of(reader.get(f"{WORKERS}{worker.pk}/change/"))
    act(reader, "stop", worker)
    assert ask(reader, worker, "stop").status_code == 403
    assert asked(worker) == (False, False)
    stopper = people("view_worker", "stop_worker")
    assert "Ask to stop" in text_of(stopper.get(f"{WORKERS}{worker.pk}/change/"))
    text_of(ask(stopper, worker, "stop"))
    assert asked(worker) == (True, False)


def test_who_else_is_kept_out(people, client, browser):
    worker = a_worker()
    assert people("view_queue").get(WORKERS).status_code == 403
    client.logout()
    assert client.get(WORKERS).url.startswith("/admin/login/")
    assert client.post(f"{WORKERS}{worker.pk}/ask/", {"verb": "stop"}).url.startswith(
        "/admin/login/"
    )
    assert asked(worker) == (False, False)


def test_only_known_verbs_are_taken_and_by_post_alone(browser):
    worker = a_worker()
    assert browser.get(f"{WORKERS}{worker.pk}/ask/").status_code == 405
    assert ask(browser, worker, "delete").status_code == 404
    assert browser.post(f"{WORKERS}{'f' * 32}/ask/", {"verb": "stop"}).status_code == 404
    assert browser.get(f"{WORKERS}{worker.pk}/delete/").status_code == 403
    assert browser.post(f"{WORKERS}{worker.pk}/change/", {"host": "x"}).status_code == 403


def test_what_it_runs_leads_to_the_jobs_that_may_be_seen(people):
    job = Note.objects.create()
    runs = [{"job": f"queueapp.note {job.pk + n}", "seconds": 90} for n in range(5)]
    a_worker(running={"7": [*runs, {"job": CANARY, "seconds": None}]}, beat_at=DbNow(plus=60))
    link = f'<a href="/admin/queueapp/note/{job.pk}/change/">queueapp.note {job.pk}</a> for 2 min'
    text = text_of(people("view_worker", "view_note").get(WORKERS))
    assert link in text
    assert "and 3 more" in text
    text = text_of(people("view_worker").get(WORKERS))
    assert "/admin/queueapp/note/" not in text
    assert f"queueapp.note {job.pk} for 2 min" in text


def test_how_many_processes_a_worker_has_is_shown_with_its_decisions(browser):
    texts = ["2 -> 3 processes: the oldest job of a:b has waited 14 s", "1 -> 2 processes: so"]
    decisions = [{"seconds": n, "text": text} for n, text in enumerate(texts)]
    pool = {"processes": 3, "least": 1, "most": 8, "decisions": decisions, "queues": {"a:b": 2}}
    worker = a_worker(pool=pool)
    a_worker(host="fixed", pool={"processes": 2, "least": 2, "most": 2})
    listed = text_of(browser.get(WORKERS))
    assert "3 of 1-8" in listed
    assert texts[0].replace(">", "&gt;") in listed
    page = text_of(browser.get(f"{WORKERS}{worker.pk}/change/"))
    for text in texts:
        assert text.replace(">", "&gt;") in page
    assert "a:b 2" in page
    Worker.objects.filter(pk=worker.pk).update(pool=pool | {"held": "stays at 3 processes"})
    assert "stays at 3 processes" in text_of(browser.get(WORKERS))


def test_nothing_that_a_worker_says_is_taken_for_markup(browser):
    running = {"7": [{"job": CANARY, "seconds": CANARY}]}
    decision = {"seconds": 1, "text": CANARY}
    pool = {"most": 2, "decisions": [decision], "queues": {CANARY: 1}}
    columns = {
        "pool": pool,
        "host": CANARY,
        "trouble": CANARY,
        "serves": [CANARY],
        "stop_reason": CANARY,
    }
    worker = a_worker(running=running, **columns)
    for url in (WORKERS, f"{WORKERS}{worker.pk}/change/"):
        text = text_of(browser.get(url))
        assert "<script>alert" not in text
        assert text.count("&lt;script&gt;alert(1)") >= 5
    assert "<script>alert" not in text_of(ask(browser, worker, "drain"))
