"""Where tests keep their databases: in memory where there is room, since a disk makes each commit
wait. What is killed by a signal loses nothing there.

folders.py    prints where temporary folders are to be made
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")  # it is always asked for a folder of its own
ROOM = 4 << 30  # bytes


def in_memory(*, executes: bool = False) -> str | None:
    """A place for temporary folders, where programs can be run if so asked; None without one."""
    if not (MEMORY.is_dir() and os.access(MEMORY, os.W_OK | os.X_OK)):
        return None
    if shutil.disk_usage(MEMORY).free < ROOM:
        return None
    is_closed = os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    return None if executes and is_closed else str(MEMORY)


def main() -> int:
    print(in_memory(executes=True) or tempfile.gettempdir())
    return 0


if __name__ == "__main__":
    sys.exit(main())
