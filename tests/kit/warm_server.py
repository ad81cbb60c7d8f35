"""Has imported what every worker needs, and forks.

    warm_server.py SOCKET bare MODULE...        none of ours is imported
    warm_server.py SOCKET project MODULE...     ``manage.py`` has set Django up for this environment

First it tells as JSON which variables its set-up has read, with their values: where one of them
differs, a process has to start from the bare server. Each request is JSON with the descriptors of
stdin, stdout, stderr and a pipe. The fork writes its pid into that; what it ended with follows.
Each is a session of its own.
"""

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

# The roots of what a worker of this project imports besides.
MODULES = [
    *("asyncio", "concurrent.futures.thread", "ctypes", "email.message", "faulthandler", "mmap"),
    *("http.client", "logging.config", "resource", "smtplib", "dj_database_url"),
    *("PIL.ExifTags", "PIL.Image", "PIL.ImageDraw", "PIL.ImageFont", "PIL.ImageOps"),
    *("django.contrib.admin.options", "django.contrib.syndication.views"),
    *("django.core.management.commands.makemigrations", "django_stubs_ext"),
    *("django.middleware.clickjacking", "django.middleware.common", "django.middleware.security"),
    *("django.core.cache.backends.locmem", "django.core.mail.backends.smtp"),
    *("django.core.management.commands", "django.db.migrations.executor"),
    *("django.db.models.sql.compiler", "django.forms.models", "django.middleware.csrf"),
    *("django.shortcuts", "django.template.backends.django", "django.urls", "django.views.generic"),
    *("django.utils.translation.reloader", "django.views.i18n"),
]


class Server:
    def __init__(self, asked: socket.socket) -> None:
        self.asked = asked
        self.pipes: dict[int, int] = {}
        self.deaths, told = os.pipe()
        os.set_blocking(told, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)

    def run(self) -> dict[str, Any]:
        """In the server this ends with the tests; in a fork it returns what is to be run."""
        while True:
            watched: list[Any] = [self.asked, self.deaths]
            ready, _, _ = select.select(watched, [], [])
            if self.deaths in ready:
                os.read(self.deaths, 4096)
                self.bury()
            if self.asked in ready:
                text, files, *_ = socket.recv_fds(self.asked, 1 << 20, 4)
                if not text:
                    sys.exit()
                if self.fork(files):
                    return dict(json.loads(text))

    def bury(self) -> None:
        while self.pipes:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            pipe = self.pipes.pop(pid)
            os.write(pipe, f"{os.waitstatus_to_exitcode(status)}\n".encode())
            os.close(pipe)

    def fork(self, files: list[int]) -> bool:
        """Whether this is the fork."""
        pid = os.fork()
        if pid:
            self.pipes[pid] = files.pop()
            for file in files:
                os.close(file)
            return False
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        for number, file in enumerate(files[:3]):
            os.dup2(file, number)
        os.write(files[3], f"{os.getpid()}\n".encode())
        os.closerange(3, max(files[3], *self.pipes.values(), 64) + 1)
        return True


def set_up_project() -> tuple[dict[str, str | None], dict[str, str]]:
    """What ``manage.py`` does before its command begins; which variables that has read, with the
    values, and which it has set."""
    import django
    from django.conf import settings

    before, names = dict(os.environ), {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    kept = os._Environ.__getitem__

    def noting(self: os._Environ[str], name: str) -> str:
        names.add(os.fsdecode(name))  # os.environb asks in bytes
        return kept(self, name)

    os._Environ.__getitem__ = noting  # type: ignore[method-assign,assignment]
    look_from(str(Path.cwd()))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    django.setup()
    import_all([settings.ROOT_URLCONF, "django_dbqueue.management.commands.runworker"])
    os._Environ.__getitem__ = kept  # type: ignore[method-assign]
    changed = {name: value for name, value in os.environ.items() if before.get(name) != value}
    return {name: before.get(name) for name in names}, changed


def look_from(folder: str) -> None:
    """Import what ``python`` would from there."""
    os.chdir(folder)
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.path[:1] = [folder, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]


def become(folder: str, env: dict[str, str], args: list[str]) -> None:
    """What ``python ARGS`` would do."""
    os.environ.clear()
    os.environ.update(env)
    look_from(folder)
    kind, *rest = args
    if kind == "-c":
        sys.argv = args
        exec(rest[0], {"__name__": "__main__"})
    elif kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = args
        runpy.run_path(kind, run_name="__main__")


def import_all(names: list[str]) -> None:
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:  # an extra that is not installed
            pass


def assert_bare() -> None:
    from django.conf import settings

    assert not settings.configured, "those of each process are its own"
    ours = [name for name in sys.modules if name.startswith(("django_dbqueue", "test"))]
    assert not ours, ours


def assert_shareable() -> None:
    """What a fork shares with its parent it would share with others."""
    from django.db import connections

    assert all(one.connection is None for one in connections.all()), "somebody has connected"
    assert threading.active_count() == 1, threading.enumerate()


def main(number: str, kind: str, *modules: str) -> None:
    read: dict[str, str | None] = {}
    changed: dict[str, str] = {}
    import_all([*MODULES, *modules])
    assert_bare()
    if kind == "project":
        read, changed = set_up_project()
        assert_shareable()
    gc.collect()
    gc.freeze()
    asked = socket.socket(fileno=int(number))
    asked.send(json.dumps(read).encode())
    request = Server(asked).run()
    request["env"] |= changed
    become(**request)


if __name__ == "__main__":
    main(*sys.argv[1:])
