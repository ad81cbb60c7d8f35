"""Fixtures: a real database in autocommit, workers as real processes, time as a deadline."""

import gc
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import setup_databases, teardown_databases

from tests.kit import selection
from tests.kit.connections import clean_database, leave_alone


def pytest_addoption(parser: pytest.Parser) -> None:
    selection.add_options(parser)


def pytest_itemcollected(item: pytest.Item) -> None:
    selection.mark(item)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return selection.lacks_word(config, collection_path) or None


@pytest.hookimpl(trylast=True)  # what -m and -k leave out is out by then
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    selection.select(config, items)


def pytest_sessionstart() -> None:
    """While tests are collected there is no garbage: looking for it would take a fifth of the time,
    in each process."""
    gc.disable()
    # A shell that runs us in the background has us ignore it, and each process that we start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What is imported by now stays: who collects garbage, we or a fork of ours, need not look
    through all of it."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture
def full(request: pytest.FixtureRequest) -> bool:
    """Whether a proof is to run at its full length (``make prove``) or as long as CI allows."""
    return bool(request.config.getoption("--full"))


@pytest.fixture(scope="session")
def django_db_setup(
    request: pytest.FixtureRequest,
    django_test_environment: None,
    django_db_modify_db_settings: None,
    django_db_blocker: Any,
) -> Iterator[None]:
    """The test databases; pytest-django's own makes only those that its marker asks for."""
    keep = bool(request.config.getoption("--reuse-db"))
    with django_db_blocker.unblock():
        config = setup_databases(verbosity=0, interactive=False, keepdb=keep)
    yield
    with django_db_blocker.unblock():
        leave_alone([database.settings_dict["NAME"] for database, *_ in config])
        teardown_databases(config, verbosity=0, keepdb=keep)


@pytest.fixture
def db_rows(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The test database in autocommit; our tables are emptied afterwards."""
    with django_db_blocker.unblock(), clean_database():
        yield


@pytest.fixture
def queueing(settings: Any, own_connections: None) -> None:
    """The project queues its mail and delivers it into memory."""
    from tests.kit.mail import queue_into_memory

    queue_into_memory(settings)


@pytest.fixture
def own_connections() -> Iterator[None]:
    """No connection to a mail server is left from before, and none stays."""
    from django_dbqueue.mail.sending.connections import close_connections

    close_connections()
    yield
    close_connections()


@pytest.fixture
def server(settings: Any, own_connections: None) -> Iterator[Any]:
    """A mail server to which this process delivers, and others do by its ``environment``."""
    from tests.kit.mail import deliver_to
    from tests.kit.smtp_server import ScriptedServer

    server = ScriptedServer()
    deliver_to(settings, server.port, MAIL_TIMEOUT=60, MAIL_RETRY_FIRST=0.01)
    yield server
    server.close()


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: Any, django_db_setup: None, django_db_blocker: Any) -> Path:
    """An SQLite database without a row, to be copied: to migrate one takes more than a second."""
    from tests.kit.clusters import alias_to, migrate

    path: Path = tmp_path_factory.mktemp("migrated") / "south.sqlite3"
    with django_db_blocker.unblock(), alias_to(f"sqlite:///{path}", "south") as alias:
        migrate(alias)
    return path


@pytest.fixture
def impatient(server: Any, settings: Any) -> None:
    """For servers that stall: they are soon left."""
    from tests.kit.mail import setting

    setting(settings, MAIL_TIMEOUT=0.5, MAIL_FINAL_TIMEOUT=0.5)


@pytest.fixture
def esp(settings: Any, own_connections: None, mailoutbox: list[Any]) -> list[Any]:
    """anymail's provider for tests delivers; what it got."""
    from tests.kit.mail import deliver_to

    deliver_to(settings, 0, "tests.kit.mail_provider.Provider")
    return mailoutbox


@pytest.fixture
def people(client: Any) -> Iterator[Any]:
    """Somebody who is logged in, by the codenames of what they may do."""
    from django.contrib.auth.models import Permission, User

    made: list[User] = []

    def log_in(*codenames: str, **fields: Any) -> Any:
        user = User.objects.create_user(f"user{len(made)}", is_staff=True, **fields)
        made.append(user)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        assert user.user_permissions.count() == len(codenames)
        client.force_login(user)
        return client

    yield log_in
    client.logout()
    for user in made:
        user.delete()


@pytest.fixture
def browser(people: Any) -> Any:
    return people(is_superuser=True)


@pytest.fixture
def forget_address(capsys: Any) -> Callable[..., str]:
    """Call the command; what it printed."""

    from django.core.management import call_command

    def call(*args: str) -> str:
        call_command("forget_address", *args)
        return str(capsys.readouterr().out)

    return call


@pytest.fixture(autouse=True)
def as_it_was_logged() -> Iterator[None]:
    """A command called within a test sets the queue's log up for its own process."""
    logger = logging.getLogger("django_dbqueue")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


STOPS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


@pytest.fixture(autouse=True)
def signals_are_heeded() -> Iterator[None]:
    """By each process that a later test starts: it ignores and blocks what we do."""
    yield
    ignored = {one for one in STOPS if signal.getsignal(one) is signal.SIG_IGN}
    blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS) & STOPS
    for one in ignored:
        signal.signal(one, signal.default_int_handler if one is signal.SIGINT else signal.SIG_DFL)
    assert not ignored | blocked, f"left ignored: {ignored}, and blocked: {blocked}"


@pytest.fixture
def log(tmp_path: Path) -> str:
    return str(tmp_path / "log")


@pytest.fixture
def database_url() -> str:
    """The test database's address, for processes of their own."""
    settings = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{settings['NAME']}"
    url = os.environ["DATABASE_URL"]
    address, _, options = url.partition("?")
    base, _, _ = address.rpartition("/")
    return f"{base}/{settings['NAME']}" + (f"?{options}" if options else "")
