"""A shell in which a test enters commands as a reader does, in one session from top to bottom."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.kit.waiting import wait_until

# Nothing of the tests' own settings reaches it.
OURS = ("DATABASE_URL", "DBQUEUE_", "DJANGO_", "PYTEST_", "PYTHON", "TEST_")
PATIENCE = 180  # seconds
DONE, FAILED = "@@ entered", "@@ failed"
# Jobs can be named by %1, as in a shell that people use.
BEGIN = f"set -m\ntrap 'echo \"{FAILED}: $BASH_COMMAND\"' ERR\n"


class Shell:
    """``seen`` is what the last commands, and what runs in the background, have printed."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self._script = folder / ".entered.sh"
        self._log = (folder / ".shell.log").open("w+")
        self._begin = 0
        self.bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._write(BEGIN)

    @property
    def seen(self) -> str:
        return self._all()[self._begin :]

    @property
    def place(self) -> Path:
        """The folder that it is in by now."""
        return Path(f"/proc/{self.bash.pid}/cwd").readlink()

    def enter(self, commands: str, may_fail: str = "nothing") -> None:
        """Run them; what is left in the background goes on. ``may_fail``: a command whose exit code
        says something."""
        self._begin = len(self._all())
        self._script.write_text(f"{commands}\ntrue\n")
        self._write(f". {self._script} </dev/null\necho '{DONE}'\n")
        wait_until(lambda: DONE in self.seen or self.bash.poll() is not None, PATIENCE)
        failed = [line for line in self.seen.splitlines() if line.startswith(FAILED)]
        assert [line for line in failed if may_fail not in line] == [], self.seen

    def shows(self, text: str) -> None:
        """Wait until its lines have come, in their order; ``...`` is anything."""
        parts = (re.escape(part) for part in text.strip().split("..."))
        # Other lines may stand between them.
        lines = re.compile(".*?".join(parts).replace("\\\n", r"\n(?:[^\n]*\n)*?"), re.S)
        try:
            wait_until(lambda: lines.search(self.seen), PATIENCE)
        except AssertionError:
            raise AssertionError(f"not seen:\n{text}\nbut:\n{self.seen}") from None

    def close(self) -> None:
        """End it with all that it has started."""
        for pid in self._session():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.bash.communicate()
        self._log.close()

    def _all(self) -> str:
        # The rest of a letter may be on its way.
        return os.pread(self._log.fileno(), 10_000_000, 0).decode(errors="ignore")

    def _write(self, text: str) -> None:
        assert self.bash.stdin
        self.bash.stdin.write(text)
        self.bash.stdin.flush()

    def _session(self) -> list[int]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.getsid(int(process.name)) == self.bash.pid:
                    found.append(int(process.name))
        return found


def environment_of(python: Path, *, path: Path | None = None) -> dict[str, str]:
    """With the commands of an environment of Python first; ``path``: where modules are, too."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    env["PATH"] = os.pathsep.join([str(python.parent), env.get("PATH", "")])
    env["PYTHONUNBUFFERED"] = "1"  # each line is seen at once, as in a terminal
    return env | ({"PYTHONPATH": str(path)} if path else {})


@contextmanager
def shell(folder: Path, *, path: Path | None = None) -> Iterator[Shell]:
    session = Shell(folder, environment_of(Path(sys.executable), path=path))
    try:
        yield session
    finally:
        session.close()
