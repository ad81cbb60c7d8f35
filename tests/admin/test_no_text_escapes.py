"""Every text of the admin's pages goes through gettext: in a language that puts each of them into
brackets, nothing but data stands outside."""

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client, override_settings
from django.urls import reverse

from tests.browser import pages
from tests.browser.scene import Settings, build
from tests.kit.admin_roles import ACTION, ASKED, MODELS, offered
from tests.kit.connections import empty_tables
from tests.kit.pseudo import escapes, pseudo_language, stored_texts

# Of texts no database and no version knows more than another.
pytestmark = pytest.mark.any_database

# Strangers' words without a letter, so that no data look like texts.
TEXT, QUEUE, ERROR = "12 34", "56", "78 90"
# Names: of zones, databases, files and code, of things that have no other name, and units of bytes.
NAMES = {
    *("Beanstalk", "UTC", "default", "admin", "Message-ID", "HTML", "eml", "CSV", "uuid"),
    *("dbqueue_mail", "chief", "id", "queueapp.note", "OSError", "RuntimeError", "ValueError"),
    *("<a>.pdf", "Picture", "# no such user"),
}


# What the forms of actions refuse.
NONSENSE = ACTION | {
    "dbqueue-queue": " 1",
    "dbqueue-priority": "-1",
    "dbqueue-due": "?",
    "dbqueue-time_to_run": "0",
}
# What the actions are told, and what they wrote before it was undone.
GIVEN = {"another", "by chief, in the admin"}


@pytest.fixture(scope="module")
def scene(django_db_setup, django_db_blocker):
    with django_db_blocker.unblock(), override_settings(**vars(Settings())):
        chief = User.objects.create_superuser("chief")
        yield build(TEXT, QUEUE, ERROR)
        chief.delete()  # and what the log says of it
        empty_tables()


@pytest.fixture(scope="module")
def chief(scene):
    client = Client()
    client.force_login(User.objects.get())
    return client


@pytest.fixture(scope="module")
def data(scene):
    return stored_texts() | NAMES


@pytest.mark.parametrize("name", pages.KINDS)
def test_nothing_of_a_page_escapes(chief, scene, data, name):
    with pseudo_language():
        response = chief.get(pages.address(name, scene))
    assert response.status_code == 200
    asked = {"none"} if name == "charts none" else set()  # a queue of the address
    found = sorted(escapes(response.content.decode(), data | asked))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_nothing_escapes_of_what_is_asked_and_said_after_an_action(chief, data, model):
    """Each action once, as somebody confirms it, and before."""
    model_admin = admin.site.get_model_admin(model)
    rows = list(model._default_manager.values_list("pk", flat=True)[:500])
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    wrong = []
    for name in offered(model_admin):
        for more in (
            {},
            ACTION,
            NONSENSE,
            *({**one, "select_across": "1"} for one in ({}, ACTION)),
        ):
            asked = {"action": name, "_selected_action": rows, **more}
            with pseudo_language(), transaction.atomic():
                response = chief.post(url, asked, follow=True)
                transaction.set_rollback(True)
            if response.streaming:
                continue  # a file
            page = response.content.decode()
            # Of all rows only where something is found: there are many.
            found = escapes(page, data | GIVEN) and escapes(page, data | GIVEN | stored_texts())
            wrong += [f"{name} {sorted(more)}: {one}" for one in found]
    assert not wrong, "\n".join(wrong)


WRONG = {
    "pause": {"how": "minutes", "minutes": "x", "reason": ""},
    "pause until": {"how": "until", "until": "x", "reason": "9" * 600},
}


def test_nothing_escapes_of_what_is_wrong_with_a_form(chief, data):
    pause = reverse("admin:dbqueue_queue_pause")
    add = reverse("admin:dbqueue_schedules_schedule_add")
    wrong = []
    for url, sent in (
        *((pause, ASKED["pause"] | one) for one in WRONG.values()),
        (reverse("admin:dbqueue_mail_suppression_add"), {"address": "9", "reason": "by hand"}),
        (add, {}),
    ):
        with pseudo_language():
            response = chief.post(url, sent)
        wrong += escapes(response.content.decode(), data | {"null"})
    assert not wrong, "\n".join(wrong)


def test_a_text_that_is_not_translated_is_seen():
    with pseudo_language():
        page = "<p title='Not this'>⟦This⟧ and <b>that</b> ⟦one (⟦another⟧)⟧ 12</p>"
        assert escapes(page, {"and"}) == {"Not this", "that"}
