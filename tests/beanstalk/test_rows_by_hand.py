"""Tube jobs as no code of ours writes them: edited by hand, on a database that takes anything."""

import pytest
from django.db import connection

from django_dbqueue.beanstalk import commands, replies
from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.lifecycle.policy import MAX_SECONDS
from tests.kit.beanstalk_desk import Desk
from tests.kit.broken_rows import SETS, SQLITE, edit

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.skipif(connection.vendor != "sqlite", reason="its columns hold words"),
]
SETS_OF_TUBES = {
    "a body of words": "body = 'grüße'",
    "a body of broken words": "body = CAST(x'67ff' AS TEXT)",
    "a body that is a number": "body = 7.5",
    "a priority of bytes": "priority = x'00'",
    "a ttr in words": f"ttr = 'long', time_to_run = {MAX_SECONDS}",
    "an endless ttr": f"ttr = 9e999, time_to_run = {MAX_SECONDS}",
    "a delay in words": "delay = 'long'",
    "made some day": "created_at = 'some day'",
    "buried in words": "status = 4, burial = 'late'",
    "reserved in words": "reserves = 'often'",
    "a queue of broken words": "queue = CAST(x'ff' AS TEXT)",
}


@pytest.fixture
def desk():
    return Desk()


@pytest.mark.parametrize("body", ["grüße", "order 7", ""])
def test_a_body_of_words_is_read_as_its_bytes(desk, body):
    client = desk.client()
    key = desk.put(client)
    edit(TubeJob(pk=key), f"body = '{body}'")
    told = b"%d %d\r\n%s\r\n" % (key, len(body.encode()), body.encode())
    assert desk.ask(client, commands.Peek(key)) == b"FOUND " + told
    assert desk.ask(client, commands.PeekReady()) == b"FOUND " + told
    assert desk.ask(client, commands.Reserve()) == b"RESERVED " + told
    assert desk.ask(client, commands.Delete(key)) == replies.DELETED


@pytest.mark.parametrize("sets", {**SETS, **SQLITE, **SETS_OF_TUBES}.values())
def test_whatever_a_row_holds_the_server_answers_and_gives_the_other_jobs(desk, sets):
    one, two = desk.client(), desk.client()
    key, *others = (desk.put(one) for _ in range(4))
    edit(TubeJob(pk=key), sets)
    for _ in range(3):
        for client in (one, two):
            desk.broker.submit(client, commands.Reserve())
        desk.turn()
    held = {*one.holds, *two.holds}
    assert set(others) <= held <= {key, *others}
    for command in (
        *(commands.Peek(key), commands.PeekReady(), commands.PeekDelayed(), commands.PeekBuried()),
        *(commands.StatsJob(key), commands.StatsTube("default"), commands.Stats()),
        *(commands.ListTubes(), commands.ReserveJob(key), commands.StatsJob(key)),
        *(commands.Touch(key), commands.Release(key, 0, 0), commands.Bury(key, 0)),
        *(commands.KickJob(key), commands.Kick(1), commands.Delete(key)),
    ):
        assert desk.ask(two, command), command
