"""A small project with a web server that runs for real, and all that it leaves running."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.kit.processes import QUICK, has_ended
from tests.kit.user_project import Project
from tests.kit.waiting import wait_until

MANAGE = """
import sys
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
SETTINGS = """
import os
DEBUG = os.environ["DEBUG"] == "1"
ROOT_URLCONF = "kiosk_urls"
ALLOWED_HOSTS = ["*"]
"""
WSGI = """
from django.core.wsgi import get_wsgi_application
application = get_wsgi_application()
"""
ASGI = """
from django.core.asgi import get_asgi_application
from django_dbqueue.server import with_worker
application = with_worker(get_asgi_application())

async def aware(scope, receive, send):
    assert scope["type"] == "lifespan"
    for step in ("startup", "shutdown"):
        assert (await receive())["type"] == f"lifespan.{step}"
        with open("log", "a") as log:
            log.write(f"{step}\\n")
        await send({"type": f"lifespan.{step}.complete"})

aware = with_worker(aware)
"""
GUNICORN = "from django_dbqueue.server import post_worker_init\n"
MODELS = """
from pathlib import Path

class Parcel(Job):
    class Meta(Job.Meta):
        pass

    def run(self):
        with Path("log").open("a") as log:
            log.write(f"{self.pk}\\n")
"""


class Site(Project):
    """A project whose processes are known by the folder that they run in."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, f"sqlite:///{folder / 'kiosk.sqlite3'}")
        self.environment |= QUICK | {"TMPDIR": str(folder)}
        files = {"manage.py": MANAGE, "kiosk_urls.py": "urlpatterns = []\n", "site_wsgi.py": WSGI}
        files |= {"site_asgi.py": ASGI, "gunicorn.conf.py": GUNICORN}
        for name, text in files.items():
            (folder / name).write_text(text)
        with (folder / "kiosk_settings.py").open("a") as settings:
            settings.write(SETTINGS)
        self.models(MODELS)
        self.output = folder / "output"

    @contextmanager
    def serving(
        self, *command: str, mode: str = "1", debug: bool = True
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """Python with some arguments; afterwards no process of this site is left."""
        own = {"DBQUEUE_RUN_WITH_SERVER": mode, "DEBUG": "1" if debug else "0"}
        with self.output.open("wb") as output:
            server = subprocess.Popen(
                [sys.executable, *command],
                cwd=self.folder,
                env=self.environment | own,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            yield server
        finally:
            while left := self.living():
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                server.poll()

    def said(self) -> str:
        return self.output.read_text()

    def living(self) -> list[int]:
        """All processes of this site: servers, workers, and the workers' children."""
        numbers = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
        return [pid for pid in numbers if self._has(pid)]

    def workers(self) -> dict[int, int]:
        """The pids of workers, without their children, and the pid of the parent of each."""
        parents = {pid: _parent(pid) for pid in self.living() if "runworker" in _command(pid)}
        return {pid: parent for pid, parent in parents.items() if parent not in parents}

    def worker(self, but: int = 0) -> int:
        """The pid of the only worker, once there is no other than that."""
        return int(wait_until(lambda: but not in (found := self.workers()) and _only(found)))

    def runs_a_job(self) -> None:
        """Enqueue one, and wait until it has run."""
        key = self.shell("print(Parcel.objects.create().pk)")
        wait_until(lambda: key in self.log())

    def log(self) -> list[str]:
        path = self.folder / "log"
        return path.read_text().split() if path.exists() else []

    def _has(self, pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/cwd").readlink() == self.folder and not has_ended(pid)
        except OSError:
            return False


def _only(found: dict[int, int]) -> int:
    return next(iter(found)) if len(found) == 1 else 0


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def _parent(pid: int) -> int:
    with suppress(OSError):
        # The command's name, in parentheses, may hold anything.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
