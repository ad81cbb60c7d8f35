"""Every page works next to grappelli, jazzmin and unfold, which bring templates of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser import pages
from tests.browser.chrome import DESKTOP, PHONE, Page
from tests.browser.people import SUPERUSER

ROOT = Path(__file__).resolve().parents[2]
WIDTHS = {"1280": DESKTOP, "390": PHONE}
OURS = {"queues", "charts", "failures", "search", "activity", "pause form", "page failed"}
SHOWN = ("queues", "charts", "jobs", "page failed", "page refused")


@pytest.fixture(params=["grappelli", "jazzmin", "unfold"])
def theme(request):
    return request.param


@pytest.fixture
def themed(theme, chrome, scene, database_url):
    """A profile at the address of the project with that theme."""
    own = {
        "DJANGO_SETTINGS_MODULE": f"tests.browser.themes.{theme}_settings",
        "DATABASE_URL": database_url,
        "DBQUEUE_TESTS": "1",
        "DEBUG": "0",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.browser.themes"],
        cwd=ROOT,
        env={**os.environ, **own},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    profile = chrome.process.new_context()
    profile.set_default_timeout(20_000)
    address = process.stdout.readline().strip()
    cookie = {"name": "sessionid", "value": chrome.people.cookie_of(SUPERUSER), "url": address}
    profile.add_cookies([cookie])
    yield profile, address
    profile.close()
    process.communicate()
    assert process.returncode == 0


@pytest.mark.proof
def test_every_page_works_next_to_another_theme(theme, themed, scene, keep_picture, full):
    profile, address = themed
    for name in pages.KINDS if full else pages.ONE_OF_EACH:
        response = profile.request.get(address + pages.address(name, scene))
        assert response.status == 200, name
        assert "dbqueue" in response.text(), name
    page = Page(profile.new_page())
    for name in pages.ONE_OF_EACH if full else SHOWN:
        page.goto(address + pages.address(name, scene))
        for width, size in WIDTHS.items() if full else [("1280", DESKTOP)]:
            page.look_like("light", size)
            keep_picture(page, f"{theme}-{name.replace(' ', '-')}-{width}")
            # Grappelli's own lists and forms are wider than a phone.
            assert name not in OURS or page.overflow() <= 0, (name, width)
        assert page.locator("#grp-content, #content, #main, main").first.inner_text().strip()
