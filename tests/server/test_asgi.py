"""The lifespan protocol of ASGI, with applications that know it and such that do not."""

import asyncio

import pytest

from django_dbqueue.server import with_worker

pytestmark = pytest.mark.any_database

STARTUP, SHUTDOWN = "lifespan.startup", "lifespan.shutdown"
COMPLETE = [f"{STARTUP}.complete", f"{SHUTDOWN}.complete"]


@pytest.fixture
def drive(settings):
    """Plays the server for an application; what it was answered."""

    def drive(application, kind="lifespan"):
        settings.DBQUEUE = {"RUN_WITH_SERVER": True}
        wrapped = with_worker(application)
        settings.DBQUEUE = {}  # no worker is wanted any more
        asked, answers = [STARTUP, SHUTDOWN], []

        async def receive():
            return {"type": asked.pop(0)}

        async def send(message):
            answers.append(message["type"])

        asyncio.run(wrapped({"type": kind}, receive, send))
        return answers

    return drive


async def refuses(scope, receive, send):
    raise ValueError("no lifespan here")


async def ignores(scope, receive, send):
    pass


async def knows(scope, receive, send):
    for _ in COMPLETE:
        await send({"type": (await receive())["type"] + ".complete"})


async def fails(scope, receive, send):
    await receive()
    raise ValueError("no database")


@pytest.mark.parametrize("application", [refuses, ignores, knows])
def test_each_message_is_answered_once(drive, application):
    assert drive(application) == COMPLETE


def test_an_application_that_fails_at_startup_fails(drive):
    with pytest.raises(ValueError, match="no database"):
        drive(fails)


def test_other_connections_are_the_applications_own(drive):
    with pytest.raises(ValueError, match="no lifespan here"):
        drive(refuses, "http")


def test_without_the_setting_the_application_is_what_it_was():
    assert with_worker(refuses) is refuses
