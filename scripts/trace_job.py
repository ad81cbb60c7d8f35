"""How many files and functions of the package one job and one email pass, in each process.

A worker with one child serves a queue table that does nothing, and mail. When it is warm, the
first calls of every function are noted (``sys.setprofile``) while one job, and then one email, is
enqueued, run and recorded; the supervisor and its database agent are watched meanwhile. On SQLite,
in a folder of its own; the mail goes to a real SMTP server in this process.

    python scripts/trace_job.py            the counts
    python scripts/trace_job.py --names    every function, too
"""

import argparse
import importlib
import mmap
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WATCH = 4.0  # seconds: two beats, and a few turns of the reaper
ENDED = 0.3  # seconds after which a child has recorded what it has run
WITHIN = 60.0  # seconds until a job has to be done
OFF, JOB, MAIL = 0, 1, 2
MODELS = """
from django_dbqueue.models import Job

class Noop(Job):
    class Meta(Job.Meta):
        pass

    def run(self):
        pass
"""
NAMES = {OFF: "", JOB: "job", MAIL: "email"}


class Tracer:
    """Notes, in every process that is forked from this one, which functions are called."""

    def __init__(self, folder: Path, package: Path) -> None:
        self.folder, self.package = folder, f"{package}/"
        # What is being traced, told to all processes.
        self.what = mmap.mmap(-1, 1)
        self.seen: set[tuple[int, int, Any]] = set()

    def install(self) -> None:
        threading.setprofile(self.note)
        sys.setprofile(self.note)

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        what, code = self.what[0], frame.f_code
        if not what or event != "call" or (os.getpid(), what, code) in self.seen:
            return
        self.seen.add((os.getpid(), what, code))
        # Newer Pythons have no frames for comprehensions.
        is_part = code.co_name.startswith("<")
        if code.co_filename.startswith(self.package) and not is_part:
            name = getattr(code, "co_qualname", f"{code.co_name}:{code.co_firstlineno}")
            line = f"{NAMES[what]} {code.co_filename.removeprefix(self.package)} {name}\n"
            with (self.folder / str(os.getpid())).open("a") as file:
                file.write(line)

    def found(self, pid: int, what: int) -> list[tuple[str, str]]:
        """File and function."""
        path = self.folder / str(pid)
        lines = path.read_text().splitlines() if path.exists() else []
        words = [line.split(" ", 2) for line in lines]
        return sorted({(file, name) for kind, file, name in words if kind == NAMES[what]})


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def configure(folder: Path, port: int) -> None:
    """A project with an app of one queue table, "noop", and mail."""
    import django
    from django.conf import settings

    app = folder / "noop"
    app.mkdir()
    (app / "__init__.py").touch()
    (app / "models.py").write_text(MODELS)
    sys.path.insert(0, str(folder))

    options = {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL"}
    settings.configure(
        INSTALLED_APPS=["django_dbqueue", "django_dbqueue.mail", "noop"],
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": str(folder / "db.sqlite3"),
                "OPTIONS": options,
            }
        },
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        EMAIL_BACKEND="django_dbqueue.mail.backends.EmailBackend",
        EMAIL_HOST="127.0.0.1",
        EMAIL_PORT=port,
        SECRET_KEY="for no request",
        USE_TZ=True,
    )
    django.setup()


def worker() -> int:
    """The pid of a worker that this process has forked."""
    from django.core.management import call_command

    pid = os.fork()
    if not pid:
        try:
            call_command("runworker", verbosity=0, skip_checks=True)
        finally:
            os._exit(0)
    return pid


def members(worker_pid: int) -> dict[str, int]:
    """By role the pids of a worker's processes."""
    found = {"supervisor": worker_pid}
    for child in Path(f"/proc/{worker_pid}/task/{worker_pid}/children").read_text().split():
        name = Path(f"/proc/{child}/comm").read_text().strip()
        is_agent = name in {"dbqueue-agent", "dbqueue-clerk"}
        found["database agent" if is_agent else "child"] = int(child)
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    nap, deadline = threading.Event(), time.monotonic() + WITHIN
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {WITHIN:g} s")
        nap.wait(0.02)


def trace(tracer: Tracer) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """By what was traced and the process, the functions that were called."""
    from django.core.mail import send_mail
    from django.core.management import call_command

    from django_dbqueue.mail.models import Email

    call_command("migrate", verbosity=0, run_syncdb=True)
    noop: Any = importlib.import_module("noop.models").Noop

    def enqueue() -> None:
        noop.objects.create()

    def send() -> None:
        send_mail("hello", "a text", "from@example.org", ["to@example.org"])

    steps = {JOB: (noop, enqueue), MAIL: (Email, send)}
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    pid = worker()
    try:
        # Each function that is called for the first time may do more than ever again.
        for _ in range(20):
            enqueue()
            send()
        for model, _ in steps.values():
            wait_until(lambda model=model: not model.objects.exclude(status=2).exists())  # type: ignore[misc]
        threading.Event().wait(WATCH)
        for what, (model, put) in steps.items():
            tracer.what[0] = what
            put()
            wait_until(lambda model=model: not model.objects.exclude(status=2).exists())  # type: ignore[misc]
            threading.Event().wait(ENDED)
            for role, its_pid in {"enqueueing": os.getpid(), **members(pid)}.items():
                found[NAMES[what], role] = tracer.found(its_pid, what)
            threading.Event().wait(WATCH)
            tracer.what[0] = OFF
            for role in ("supervisor", "database agent"):
                found[NAMES[what], role] = tracer.found(members(pid)[role], what)
    finally:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--names", action="store_true", help="print every function")
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from aiosmtpd.controller import Controller
    from aiosmtpd.handlers import Sink

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        port = free_port()
        server = Controller(Sink(), hostname="127.0.0.1", port=port)
        server.start()
        try:
            configure(folder, port)
            import django_dbqueue

            tracer = Tracer(folder, Path(django_dbqueue.__file__).parent)
            tracer.install()
            found = trace(tracer)
        finally:
            sys.setprofile(None)
            server.stop()
    report(found, names=given.names)


def report(found: dict[tuple[str, str], list[tuple[str, str]]], *, names: bool) -> None:
    print(f"{'':8}{'process':16}{'files':>7}{'functions':>11}")
    for (what, role), calls in found.items():
        print(f"{what:8}{role:16}{len({file for file, _ in calls}):7}{len(calls):11}")
        if names:
            by_file = defaultdict(list)
            for file, name in calls:
                by_file[file].append(name)
            for file, called in by_file.items():
                print(f"            {file}: {', '.join(called)}")
    email = {
        file
        for role in ("enqueueing", "child")
        for file, _ in found["email", role]
        if file.startswith("mail/")
    }
    print(f"email   from the backend to its outcome: {len(email)} files of mail/")


if __name__ == "__main__":
    main()
