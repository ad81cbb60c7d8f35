"""What the processes of one session, or of a database, use, as Linux tells."""

import os
from collections.abc import Iterator
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
# Of /proc/PID/stat, after the name in brackets: the parent, the session, the time in user and in
# kernel.
PARENT, SESSION, USER, KERNEL = 1, 3, 11, 12


def cpu_seconds(session: int) -> dict[int, float]:
    """By pid, of all living processes."""
    return {pid: (int(f[USER]) + int(f[KERNEL])) / TICKS for pid, f in _living(session)}


def cpu_seconds_of_server(server: int) -> float:
    """Of a database's process and its children that live, in all."""
    found = [fields for _, fields in _all() if int(fields[PARENT]) == server]
    found += [fields] if (fields := _stat(Path(f"/proc/{server}"))) else []
    return sum(int(one[USER]) + int(one[KERNEL]) for one in found) / TICKS


def resident(session: int) -> dict[int, float]:
    """MiB by pid."""
    return {pid: _pages(pid) * PAGE / 2**20 for pid, _ in _living(session)}


def names(session: int) -> dict[int, str]:
    """As ``ps`` shows them, by pid."""
    return {pid: _name(pid) for pid, _ in _living(session)}


def _living(session: int) -> Iterator[tuple[int, list[str]]]:
    return (one for one in _all() if int(one[1][SESSION]) == session)


def _all() -> Iterator[tuple[int, list[str]]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _stat(folder)):
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
