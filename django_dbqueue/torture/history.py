"""What happened, as the processes themselves noted it: one file each, outside the database.

A line is one JSON object, written by one system call, so that a kill costs the last one at most.
Fields: ``t`` (nanoseconds of the host's monotonic clock), ``pid``, ``who``, ``op``, ``type``
(invoke, ok, fail, or info where the answer was lost), and by ``op``:

========================================= ========================================================
enqueue (invoke, then ok, fail or info)   mark (unique), queue; ok: key. Optional, on invoke: delay
                                          (seconds), exactly_once (its effect is a row)
start (invoke)                            key, mark, owner, attempt, crashes: before all else
effect (ok)                               key, mark, owner: it cannot be rolled back
end (ok or fail)                          key, mark, owner: run() is over, nothing is written yet
completed failed buried expired (ok)      key, owner: the database has accepted it. Optional, on
                                          failed: retry_in (seconds)
lost (info)                               key, owner: a write was refused
reaped (ok)                               key, owner (who had it), verdict, charged (a crash)
kick bury release cancel (ok)             key
pause resume (ok)                         queue
kill stop cont term (info)                pids; kill and stop: group, supervisor (it was hit, too),
                                          target: its ``who``, without which it may be anybody's
db_kill db_up conn_kill deadlock heal     nothing
read_only (info), snapshot (info)         on, open
skew (info)                               seconds
========================================= ========================================================

A job that ends its own process writes the ``kill`` of its own pid before; the one who kills others
writes it afterwards. All processes of one worker have one ``who``.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

Event = dict[str, Any]
EVENT_BYTES_MAX = 4096
REQUIRED = {"t", "pid", "who", "op", "type"}


class BrokenHistory(ValueError):
    """A line that no kill explains; says where."""


class History:
    """Writes the events of this process, and of any that is forked from it to a file of its own."""

    def __init__(self, folder: str | Path, who: str) -> None:
        self.folder = Path(folder)
        self.who = who
        self._pid = 0
        self._file = -1

    def write(self, op: str, kind: str, **fields: Any) -> None:
        """Add one event; ``ValueError`` where it is longer than 4 KiB, ``OSError`` where it does
        not fit on the disk."""
        now, pid = time.monotonic_ns(), os.getpid()
        event = {"t": now, "pid": pid, "who": self.who, "op": op, "type": kind, **fields}
        line = json.dumps(event).encode() + b"\n"
        if len(line) > EVENT_BYTES_MAX:
            raise ValueError(f"an event of {len(line)} bytes; the limit is {EVENT_BYTES_MAX}")
        if self._pid != pid:
            path = self.folder / f"{self.who}-{pid}.jsonl"
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._file, self._pid = os.open(path, flags, 0o600), pid
        if os.write(self._file, line) != len(line):
            raise OSError(f"no room for an event in {self.folder}")


def read(folder: str | Path) -> list[Event]:
    """The events of all files in the order of time; ``BrokenHistory`` for one that is no event."""
    events = []
    for path in sorted(Path(folder).glob("*.jsonl")):
        *whole, _torn = path.read_bytes().split(b"\n")
        for number, line in enumerate(whole, 1):
            try:
                event = json.loads(line)
            except ValueError as error:
                raise BrokenHistory(f"{path}:{number}: {error}") from error
            if not isinstance(event, dict) or not event.keys() >= REQUIRED:
                raise BrokenHistory(f"{path}:{number}: this is no event: {line.decode()}")
            events.append(event)
    return sorted(events, key=lambda event: event["t"])
