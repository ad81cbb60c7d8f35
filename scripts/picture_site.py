"""The test project in a folder of its own, with workers, a mail server and a web server."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
USER, PASSWORD = "anna", "secret"
MAIL_SECONDS = 1.2  # for which the server thinks about each message
PATIENCE = 60  # seconds


class Program:
    """``manage.py`` with some arguments, in a process group of its own."""

    def __init__(self, site: "Site", *args: str) -> None:
        self.log = site.folder / f"{args[0]}-{len(site.programs)}.log"
        with self.log.open("w") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "manage.py", *args],
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        site.programs.append(self)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def stop(self) -> None:
        self.popen.terminate()
        self.popen.wait(PATIENCE)


class Site:
    """Its own process knows the project, too: it places the orders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs: list[Program] = []
        self.smtp_port, web_port = free_port(), free_port()
        for name in list(os.environ):
            if name.startswith(("DBQUEUE_", "EMAIL_", "TEST_", "PYTEST_")):
                del os.environ[name]
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "testproject.settings",
            "DATABASE_URL": f"sqlite:///{folder / 'shop.sqlite3'}",
            "EMAIL_HOST": HOST,
            "EMAIL_PORT": str(self.smtp_port),
            "DJANGO_SUPERUSER_PASSWORD": PASSWORD,
            "DEBUG": "1",
        }
        self.run("migrate", "--verbosity", "0")
        self.run("createsuperuser", "--noinput", "--username", USER, "--email", "anna@shop.example")
        self.address = f"http://{HOST}:{web_port}"
        Program(self, "runserver", f"{HOST}:{web_port}", "--noreload")
        wait_until(self._answers, "the web server")
        import django  # the environment is set by now

        django.setup()

    def close(self) -> None:
        for program in self.programs:
            if program.popen.poll() is None:
                program.kill()

    def run(self, *args: str) -> None:
        subprocess.run([sys.executable, "manage.py", *args], cwd=ROOT, check=True)

    def start_worker(self, name: str) -> Program:
        return Program(self, "runworker", "--name", name, "--threads", "4")

    @contextmanager
    def mail_server(self) -> Iterator[None]:
        """One that takes every message, after a while."""
        from aiosmtpd.controller import Controller

        controller = Controller(SlowServer(), hostname=HOST, port=self.smtp_port)
        controller.start()
        try:
            yield
        finally:
            controller.stop()

    def place_orders(self, count: int) -> None:
        from testproject.shop.models import Customer, Order

        for number in range(count):
            customer, _ = Customer.objects.get_or_create(
                email=f"customer{number}@mail.example", defaults={"name": f"Customer {number}"}
            )
            Order.place(customer, Decimal(10 + number % 90))

    def paint_photos(self, count: int) -> None:
        from testproject.shop.images import paint  # the project is set up by now
        from testproject.shop.models import Photo

        for number in range(count):
            Photo.objects.create(title=f"Mug {number + 1}", image=paint(number))

    def wait_for_workers(self, count: int) -> None:
        from django_dbqueue.models import Worker

        living = Worker.objects.filter(stopped_at=None)
        wait_until(lambda: living.count() >= count, f"{count} workers")

    def held_by(self, worker: Program) -> int:
        """How many mails it has claimed."""
        from django_dbqueue.mail.models import Email
        from django_dbqueue.models import Worker

        prefix = f"{Worker.objects.get(pid=worker.popen.pid).uuid}."
        return int(Email.objects.filter(owner__startswith=prefix).claimed().count())

    def address_of_a_buried_job(self) -> str:
        from testproject.shop.models import Thumbnail

        job = Thumbnail.objects.buried().order_by("pk")[5]
        return f"/admin/shop/thumbnail/{job.pk}/change/"

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.address}/admin/login/", timeout=5) as page:
                return bool(page.status == 200)
        except (URLError, OSError):
            return False


class SlowServer:
    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        await asyncio.sleep(MAIL_SECONDS)
        return "250 Taken"


def free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def wait_until(holds: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not there after {PATIENCE} s")
        time.sleep(0.2)
