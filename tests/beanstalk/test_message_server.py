"""What docs/message-server.md says is done, as a user would do it."""

import contextlib
import io
import re
import shlex
import socket
from pathlib import Path

import pytest

from tests.kit.beanstalk_server import port_of, talking
from tests.kit.processes import ROOT, Process
from tests.kit.user_project import Project
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.any_database, pytest.mark.process]
PAGE = (ROOT / "docs" / "message-server.md").read_text()
BLOCKS = re.findall(r"```(python|sh|text)\n(.*?)```", PAGE, re.DOTALL)
SETTINGS, HANDLERS, CLIENT = (text for kind, text in BLOCKS if kind == "python")
COMMANDS, ANSWERS, SERVER_SAYS, WORKER_SAYS = (text for kind, text in BLOCKS if kind != "python")
MIGRATE, SERVE, WORK = (shlex.split(line)[2:] for line in COMMANDS.splitlines())
FROM_HERE = 50  # connections that one address may have


class Shop(Project):
    """A project as the page tells to write it."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/shop.sqlite3"
        super().__init__(folder, self.url)
        self.models(HANDLERS)
        with (folder / "kiosk_settings.py").open("a") as settings:
            settings.write(SETTINGS.replace("INSTALLED_APPS +=", "INSTALLED_APPS = ['kiosk'] +"))
        (folder / "manage.py").write_text(
            "import sys\nfrom django.core.management import execute_from_command_line\n"
            "execute_from_command_line(sys.argv)\n"
        )

    @contextlib.contextmanager
    def start(self, args):
        process = Process(self.url, *args, folder=self.folder, **self.environment)
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    shop = Shop(tmp_path_factory.mktemp("shop"))
    shop.run(*MIGRATE)
    with shop.start([word.replace(":11300", ":0") for word in SERVE]) as server:
        yield shop, server, port_of(server)


def mask(text: str) -> list[str]:
    """Lines without what differs from one run to the next."""
    text = re.sub(r"worker \w{8}|\d+(\.\d+)? s\b", "_", text)
    return re.findall(r"(?:INFO|WARNING) (.*?)(?: event=.*)?$", text, re.MULTILINE)


def run_client(port: int) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(CLIENT.replace("11300", str(port)), {})
    return out.getvalue()


def test_a_message_server_is_busy_drops_the_oldest_and_grows(shop):
    project, server, port = shop
    assert run_client(port) == ANSWERS
    with contextlib.ExitStack() as stack:
        made = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            for _ in range(FROM_HERE + 1)
        ]
        refused = wait_until(lambda: "is refused" in server.stderr)
        assert refused
        assert made[-1].recv(100) == b"OUT_OF_MEMORY\r\n"
        made[0].sendall(b"list-tube-used\r\n")
        assert made[0].recv(100) == b"USING default\r\n"
    assert set(mask(SERVER_SAYS)) <= set(mask(server.stderr))
    with project.start(WORK) as worker:
        for line in mask(WORKER_SAYS):
            wait_until(lambda line=line: line in mask(worker.stderr), 120)
        wait_until(lambda: room(port), 120)


def room(port: int) -> bool:
    """Whether an order gets in again."""
    with talking(port) as talker:
        talker.ask("use orders")
        return talker.ask("put 0 0 60 1\r\nx")[0] == "INSERTED"
