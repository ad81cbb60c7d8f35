"""Every action of every list is chosen, confirmed where it asks, and done, by clicks."""

import re

import pytest
from django.contrib import admin
from django.urls import reverse

from tests.browser.chrome import DESKTOP, PHONE
from tests.browser.scene import build
from tests.browser.test_flows import choose, confirm, go, said
from tests.kit import admin_roles

DONE = re.compile(
    r"[1-9]\d* (changed|marked|queued|erased)|deleted [1-9]|asked to|Paused|Resumed|Enqueued"
)

# Of what some ask for.
VALUES = {"queue": "another", "priority": "5", "due": "2100-01-01T00:00", "time_to_run": "90"}

pytestmark = pytest.mark.usefixtures("rows")


def actions():
    """Each; what several lists share is done on one of them in every run, on the rest at night."""
    seen = set()
    for model in admin_roles.MODELS:
        for name, function in admin_roles.offered(admin.site.get_model_admin(model)).items():
            again = [pytest.mark.nightly] if function in seen else []
            yield pytest.param(model, name, id=f"{model.__name__}-{name}", marks=again)
            seen.add(function)


@pytest.mark.proof
@pytest.mark.parametrize(("model", "name"), list(actions()))
def test_an_action_is_done_and_says_what_it_did(browse, keep_picture, model, name):
    build()
    page = browse(list_of(model))
    page.check("#action-toggle")
    if name == "export_selected":
        page.locator("select[name=action]").first.select_option(name)
        with page.expect_download() as download:
            go(page)
        assert download.value.path().read_text().count("\n") > 1
        return
    choose(page, name)
    if not page.locator(".messagelist").count():
        keep_picture(page, f"confirm-{model.__name__}-{name}")
        look_at_the_question(page)
        answer(page)
        confirm(page)
    assert DONE.search(said(page))


def list_of(model):
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def answer(page):
    """Give the values that it asks for."""
    for name, value in VALUES.items():
        field = page.locator(f'[name="dbqueue-{name}"]')
        if field.count():
            field.fill(value)


def look_at_the_question(page):
    assert page.inaccessible() == []
    page.look_like("light", PHONE)
    assert page.overflow() <= 0
    page.look_like("light", DESKTOP)
