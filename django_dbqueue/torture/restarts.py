"""Kills and restarts of the server, by its user's command."""

import subprocess
import threading

from .recorder import tell

RESTART_SECONDS_MAX = 90.0


class Restarts:
    """One at a time: the next one would kill a server that its command is still waiting for."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.problem = ""
        self._under_way = threading.Lock()

    def restart(self) -> None:
        with self._under_way:
            tell("db_kill", "info")
            try:
                done = subprocess.run(
                    self.command,
                    shell=True,
                    capture_output=True,
                    text=True,
                    timeout=RESTART_SECONDS_MAX,
                    check=False,
                )
                code, said = done.returncode, (done.stdout + done.stderr).strip()[-500:]
            except subprocess.TimeoutExpired:
                code, said = 1, f"it took more than {RESTART_SECONDS_MAX:g} s"
            tell("db_up", "info")
        if code:
            self.problem = f"--restart-database exited with {code}: {said}"
