"""Every page: light and dark, wide and narrow, for eyes and ears."""

import re
from pathlib import Path

import pytest
from django.urls import resolve

from tests.browser import pages
from tests.browser.chrome import DESKTOP, PHONE

# What axe tries: what is dark differs by colours, what is narrow by what is next to what.
LOOKS = {
    "light-1280": ("light", DESKTOP, []),
    "dark-1280": ("dark", DESKTOP, ["color-contrast"]),
    "light-390": ("light", PHONE, ["scrollable-region-focusable", "region"]),
    "dark-390": ("dark", PHONE, None),
}
# Whatever the admin offers, as tests/admin/test_roles.py writes it down.
WRITTEN = Path(__file__).resolve().parents[2] / "docs" / "admin-roles.md"
# A file; what is looked at in the frame of a mail's page; and Django's, the same for every model.
LEFT_OUT = ("_eml", "_preview", "_history")


@pytest.mark.proof
@pytest.mark.parametrize("name", pages.names(pages.KINDS, pages.ALL))
def test_a_page_is_good_in_every_light_and_width(browse, scene, keep_picture, name, full):
    page = browse(pages.address(name, scene), expected=pages.expected(name))
    wrong = []
    for look, (scheme, size, rules) in LOOKS.items():
        if not full and (rules is None or (scheme == "dark" and name not in pages.ONE_OF_EACH)):
            continue  # as dark as the first page of its kind, and no wider than in the light
        page.look_like(scheme, size)
        keep_picture(page, f"{name.replace(' ', '-')}-{look}")
        found = page.inaccessible(*([] if full else rules))
        if (more := page.overflow()) > 0:
            found.append(f"{more} pixels wider than the window")
        wrong += [f"{look}: {text}" for text in found]
    assert not wrong, "\n".join(wrong)


HIDDEN = """() => [...document.querySelectorAll(".results, .dbqueue-wide")]
    .map((one) => one.scrollWidth - one.clientWidth)"""
FITTING = ("queues", "failures", "mail", "mail archive", *(f"mail {name}" for name in pages.STATES))


@pytest.mark.parametrize("name", FITTING)
def test_all_columns_are_seen_at_once(browse, scene, name):
    page = browse(pages.address(name, scene))
    for size in (DESKTOP, PHONE):
        page.look_like("light", size)
        assert max([0, *page.evaluate(HIDDEN)]) == 0, size


@pytest.mark.parametrize("name", ["jobs", "jobs delayed", "archive", "thumbnails", "tube jobs"])
def test_all_columns_of_jobs_are_seen_at_once_on_a_desk(browse, scene, name):
    page = browse(pages.address(name, scene))
    page.look_like("light", DESKTOP)
    assert max([0, *page.evaluate(HIDDEN)]) == 0


IDS = "() => [...document.querySelectorAll('[id]')].map((one) => one.id)"


@pytest.mark.parametrize("name", pages.names(pages.ONE_OF_EACH, pages.ALL))
def test_no_two_elements_have_one_id(browse, scene, name):
    page = browse(pages.address(name, scene), expected=pages.expected(name))
    ids = page.evaluate(IDS)
    assert {one for one in ids if ids.count(one) > 1} == set()


def test_every_page_that_the_admin_offers_is_looked_at(scene):
    """So that a new one is not forgotten."""
    looked_at = {
        resolve(pages.address(name, scene).partition("?")[0]).url_name for name in pages.ALL
    }
    assert [one for one in offered() if one not in looked_at and not one.endswith(LEFT_OUT)] == []


def offered():
    """Names of addresses where a superuser sees a page."""
    for text in WRITTEN.read_text().split("\n## ")[1:]:
        model, *lines = text.splitlines()
        for line in lines:
            if found := re.match(r"\| see `(\w+)` .*\| yes \|$", line):
                yield f"{model.lower().replace('.', '_')}_{found[1]}"
