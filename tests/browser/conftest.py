"""One browser, one server, one login per role for all tests here; whatever goes wrong is seen."""

import os
from pathlib import Path

import pytest
from django.db import connection, connections
from django.test import override_settings

from tests.browser.chrome import AXE, Chrome
from tests.browser.people import SUPERUSER, People
from tests.browser.scene import Settings, build
from tests.browser.serving import STRICT, Server
from tests.kit.connections import empty_tables

HERE = Path(__file__).parent


# Looks at servers, too, at its full length.
ALSO_ON_SERVERS = "test_operator.py"


def pytest_collection_modifyitems(config, items):
    elsewhere = pytest.mark.skip(
        reason="browsers look at SQLite's pages; their contents are "
        "tested on every database by Django's test client"
    )
    if connection.vendor == "sqlite":
        return
    for item in items:
        is_long = item.path.name == ALSO_ON_SERVERS and config.getoption("--full")
        if item.path.parent == HERE and not is_long:
            item.add_marker(elsewhere)


@pytest.fixture(scope="package")
def database(django_db_setup, django_db_blocker):
    with django_db_blocker.unblock():
        yield
        empty_tables()


@pytest.fixture(scope="package")
def site(database):
    """The address of the project, whose mail is queued."""
    with override_settings(**vars(Settings()), STATICFILES_DIRS=[AXE.parent]):
        server = Server(STRICT)
        yield server.address
        server.close()


@pytest.fixture(scope="package")
def people(database):
    """Cookies of somebody who is logged in, by role or codenames."""
    found = People()
    yield found
    found.leave()


@pytest.fixture(scope="package")
def chrome(site, people):
    # Playwright keeps an event loop in this thread, from which Django fears to be called.
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    chrome = Chrome(site, people)
    yield chrome
    connections.close_all()
    chrome.close()
    if before is None:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def browse(chrome):
    """Open pages: ``browse(url)``; at the end nothing may have gone wrong in any of them."""
    yield chrome.open
    problems = chrome.end_test()
    assert not problems, "\n".join(problems)


@pytest.fixture
def keep_picture(full):
    """Of a page, for people to look at; with --full."""

    def keep(page, name):
        if full:
            page.keep_picture(name)

    return keep


@pytest.fixture
def rows(database):
    """The tables are empty afterwards."""
    yield
    empty_tables()


@pytest.fixture(scope="module")
def scene(chrome, people):
    """All that there is to be seen, for tests that only look."""
    people.cookie_of(SUPERUSER)  # who did what there is to be seen of people
    yield build()
    empty_tables()
