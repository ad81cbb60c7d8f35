"""What the processes of one session use, as Linux tells."""

import os
from collections.abc import Iterator
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
# Of /proc/PID/stat, after the name in brackets: the session, then the time in user and in kernel.
SESSION, USER, KERNEL = 3, 11, 12


def cpu_seconds(session: int) -> dict[int, float]:
    """By pid, of all living processes."""
    return {pid: (int(f[USER]) + int(f[KERNEL])) / TICKS for pid, f in _living(session)}


def resident(session: int) -> dict[int, float]:
    """MiB by pid."""
    return {pid: _pages(pid) * PAGE / 2**20 for pid, _ in _living(session)}


def names(session: int) -> dict[int, str]:
    """As ``ps`` shows them, by pid."""
    return {pid: _name(pid) for pid, _ in _living(session)}


def _living(session: int) -> Iterator[tuple[int, list[str]]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _stat(folder)) and int(fields[SESSION]) == session:
            yield int(folder.name), fields


def _stat(folder: Path) -> list[str]:
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []  # it has just ended


def _pages(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
