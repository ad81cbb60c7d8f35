"""Tube jobs in the admin."""

import json

import pytest

from django_dbqueue.admin.masking import MASK
from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.states import Status

pytestmark = pytest.mark.usefixtures("db_rows")
LIST = "/admin/dbqueue_beanstalk/tubejob/"


def put(body):
    return TubeJob.objects.enqueue(queue="letters", body=body).job.pk


def page(client, path=""):
    response = client.get(LIST + path)
    assert response.status_code == 200
    return response.content.decode()


def test_the_list_tells_the_tube(browser):
    put(b"x")
    assert "letters" in page(browser)


def test_a_body_of_text_is_shown_and_cannot_run(browser):
    shown = page(browser, f"{put('<script>grüße</script>'.encode())}/change/")
    assert "&lt;script&gt;grüße&lt;/script&gt;" in shown
    assert "<script>grüße" not in shown


def test_secrets_in_a_body_of_json_are_masked(browser):
    body = json.dumps({"password": "hunter2", "street": "Elm"}).encode()
    shown = page(browser, f"{put(body)}/change/")
    assert "Elm" in shown
    assert MASK in shown
    assert "hunter2" not in shown


def test_of_a_binary_body_the_size_is_shown(browser):
    assert "3\xa0bytes of binary data" in page(browser, f"{put(bytes([0, 255, 254]))}/change/")


def test_without_the_permission_to_inspect_no_body_is_shown(people):
    client = people("view_tubejob")
    shown = page(client, f"{put(b'who may not read this')}/change/")
    assert "who may not read this" not in shown


def test_a_job_is_buried_and_kicked_by_a_person(browser):
    key = put(b"x")
    for action, status in (("bury_selected", Status.BURIED), ("kick_selected", Status.READY)):
        browser.post(LIST, {"action": action, "_selected_action": [key]})
        assert TubeJob.objects.get().status == status
