"""The same sessions with Debian's beanstalkd and with ours: the same answers."""

import asyncio
import shutil
import socket
import subprocess
from contextlib import contextmanager

import pytest

from tests.kit.beanstalk_cases import CASES, OF_TTR
from tests.kit.beanstalk_server import serving
from tests.kit.beanstalk_sessions import Session
from tests.kit.waiting import wait_until

REFERENCE = shutil.which("beanstalkd") or shutil.which("beanstalkd", path="/usr/sbin:/usr/bin")
AT_ONCE = 60  # the machine's, not the servers'

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.skipif(REFERENCE is None, reason="beanstalkd is missing: make beanstalkd"),
]


@contextmanager
def reference():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([REFERENCE, "-l", "127.0.0.1", "-p", str(port)])
    try:
        wait_until(lambda: accepts(port))
        yield port
    finally:
        process.kill()
        process.wait()


def accepts(port):
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


async def hold_all(port, cases, counts):
    """What each case heard, by its name."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(name):
        async with slots:
            return await Session(port, name).run(cases[name], counts.get(name))

    return dict(zip(cases, await asyncio.gather(*map(one, cases)), strict=True))


def counts_of(heard):
    """How many answers each client had got after each step."""
    return {
        name: [{number: len(answers) for number, answers in step.items()} for step in steps]
        for name, steps in heard.items()
    }


def differences(cases, expected, found):
    for name, steps in cases.items():
        for step, said, heard in zip(steps, expected[name], found[name], strict=True):
            if said != heard:
                yield f"{name}, after {step[:70]!r}: {said}, ours: {heard}"
                break


def test_there_are_at_least_a_hundred_and_fifty_cases():
    assert len(CASES) + len(OF_TTR) >= 150


def test_all_sessions_hear_the_same(database_url):
    with reference() as port:
        expected = asyncio.run(hold_all(port, CASES, {}))
    with serving(database_url) as (_, port):
        found = asyncio.run(hold_all(port, CASES, counts_of(expected)))
    assert not list(differences(CASES, expected, found))


def test_sessions_about_ttr_hear_what_the_protocol_says(database_url):
    """The reference loses some expiries while its connections are silent."""
    cases = {name: [step for step, _ in steps] for name, steps in OF_TTR.items()}
    expected = {name: list(grown(steps)) for name, steps in OF_TTR.items()}
    with serving(database_url) as (_, port):
        found = asyncio.run(hold_all(port, cases, counts_of(expected)))
    assert not list(differences(cases, expected, found))


def grown(steps):
    """What each client has heard after each step, of what each step adds."""
    heard = {}
    for step, added in steps:
        number = step.split()[0]
        if number.isdecimal():
            heard.setdefault(number, [])
        for client, answers in added.items():
            heard[client] = heard.get(client, []) + answers
        yield dict(heard)
