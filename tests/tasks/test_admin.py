"""Tasks in the admin."""

import pytest

from django_dbqueue.admin.masking import MASK
from django_dbqueue.tasks.models import Task
from tests.tasks import calls
from tests.tasks.test_backend import work_off

pytestmark = pytest.mark.usefixtures("db_rows")
LIST = "/admin/dbqueue_tasks/task/"


def page(browser, path=""):
    response = browser.get(LIST + path)
    assert response.status_code == 200
    return response.content.decode()


def test_the_list_tells_what_is_called_and_how_far_it_is(browser):
    calls.walk.enqueue(4)
    work_off()
    shown = page(browser)
    assert "tests.tasks.calls.walk" in shown
    assert "4 of 4 (100 %): step 4" in shown


def test_the_page_shows_arguments_and_result_without_secrets(browser):
    calls.echo.enqueue({"password": "hunter2", "street": "Elm"})
    work_off()
    shown = page(browser, f"{Task.objects.get().pk}/change/")
    assert "Elm" in shown
    assert MASK in shown
    assert "hunter2" not in shown


def test_a_failed_task_can_be_retried(browser):
    calls.fail.enqueue("no luck")
    work_off()
    row = Task.objects.get()
    assert "ValueError: no luck" in page(browser, f"{row.pk}/change/")
    told = {"action": "kick_selected", "_selected_action": [row.pk]}
    browser.post(LIST, told)
    row.refresh_from_db()
    assert row.state == "ready"


@pytest.mark.parametrize("asked", ["result_id", "number", "nonsense"])
def test_a_task_is_found_by_its_number_or_the_id_of_its_result(browser, asked):
    given = calls.noop.enqueue()
    calls.add.enqueue(1)
    words = {"result_id": given.id, "number": Task.objects.first().pk, "nonsense": "'x"}[asked]
    shown = page(browser, f"?q={words}")
    assert ("tests.tasks.calls.noop" in shown) is (asked != "nonsense")
    assert "tests.tasks.calls.add" not in shown


def test_a_task_that_waits_for_its_code_says_so(browser):
    calls.noop.enqueue()
    Task.objects.update(task_path="nowhere.at.all")
    work_off()
    shown = page(browser, f"{Task.objects.get().pk}/change/")
    assert "It waits for code that has it: nowhere.at.all cannot be imported" in shown


def test_of_keys_the_page_shows_those_that_a_task_has_after_what_it_is_called_with(browser):
    calls.echo.enqueue("what it is called with")
    bare = page(browser, f"{Task.objects.get().pk}/change/")
    names = ["Concurrency key", "Concurrency limit", "Key order", "Trace context", "Dedup key"]
    assert [name for name in names if name in bare] == []
    Task.objects.all().cancel()
    calls.echo.using(concurrency_key="photo:7", dedup_key="one").enqueue("what it is called with")
    keyed = page(browser, f"{Task.objects.get().pk}/change/")
    places = [keyed.index(name) for name in ("what it is called", "Concurrency key", "Dedup key")]
    assert places == sorted(places)
    assert "Key order" not in keyed
