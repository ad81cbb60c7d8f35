"""Which tests run where: marks that follow from what a test asks for, and what is left out."""

import zlib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

# Who asks for one of these starts a worker, or another process on the test database.
OF_PROCESSES = {"database_url", "private", "private_session"}
# How long a test takes, roughly: what starts processes waits for them.
HEAVY, LIGHT = 1.0, 0.03  # seconds
TESTS = Path(__file__).parents[1]
# Folders whose tests look at rows through pages, messages, tasks, schedules, commands: mostly by
# the ORM, and by verbs that have tests of their own on each database.
OF_ONE_DATABASE = (
    *("admin", "mail", "monitor"),
    *("tasks", "schedules", "management", "testing", "integrations"),
)


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="prove it with all rounds, not with a few")
    parser.addoption("--cluster", action="store_true", help="also what needs several servers")
    parser.addoption(
        "--each-database",
        action="store_true",
        help="leave out what no database matters to, which runs once, on SQLite",
    )
    parser.addoption(
        "--few-processes",
        action="store_true",
        help="of the tests that start processes or a browser, only the first of each file, and "
        "those that nothing older runs",
    )
    parser.addoption(
        "--files-naming",
        metavar="WORD",
        help="only files in whose text this word stands: the others are not even imported",
    )
    parser.addoption(
        "--share",
        metavar="N/M",
        help="of the tests that start processes or are marked one_database, unless each database "
        "matters to them, the N-th of M parts, so that M databases have all of them between them",
    )
    parser.addoption(
        "--turn",
        type=int,
        default=0,
        metavar="T",
        help="which parts --share means: those of one database are the next one's a turn later",
    )
    parser.addoption(
        "--the-rest",
        action="store_true",
        help="only what --each-database and --share leave out, as they are given",
    )


def lacks_word(config: pytest.Config, path: Path) -> bool:
    """Whether this is a file of tests that --files-naming leaves out."""
    word = config.getoption("--files-naming")
    return bool(word) and path.match("test_*.py") and word not in path.read_text()


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    _leave_out_what_is_not_asked_for(config, items)
    put_slow_files_first(items)


def put_slow_files_first(items: list[pytest.Item]) -> None:
    """Else one process is still busy with a long file when the others have nothing left to do."""
    seconds: defaultdict[Path, float] = defaultdict(float)
    for item in items:
        seconds[item.path] += HEAVY if is_heavy(item) or has(item, "proof") else LIGHT
    items.sort(key=lambda item: -seconds[item.path])


def _leave_out_what_is_not_asked_for(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--full"):
        leave_out(config, items, lambda item: has(item, "nightly"))
    if not config.getoption("--cluster"):
        leave_out(config, items, lambda item: has(item, "cluster"))
    is_rest = config.getoption("--the-rest")
    leave_out(config, items, lambda item: is_elsewhere(config, item) != is_rest)
    if config.getoption("--few-processes"):
        seen: set[Path] = set()
        leave_out(config, items, lambda item: is_one_of_many(item, seen))


def is_elsewhere(config: pytest.Config, item: pytest.Item) -> bool:
    """Whether it runs on SQLite alone, or is in another server's share."""
    share, turn = config.getoption("--share"), config.getoption("--turn")
    if config.getoption("--each-database") and not depends_on_the_database(item):
        return True
    return bool(share) and is_of_one_database(item) and not is_in(share, turn, item)


def mark(item: pytest.Item) -> None:
    """What is known without being said."""
    if item.path.parent.name == "browser":
        item.add_marker(pytest.mark.browser)
    elif item.path.parent.name in OF_ONE_DATABASE and depends_on_the_database(item):
        item.add_marker(pytest.mark.one_database)
    if OF_PROCESSES & asked_for(item):
        item.add_marker(pytest.mark.process)


def depends_on_the_database(item: pytest.Item) -> bool:
    """A test that does not ask for the database cannot reach it: pytest-django sees to that."""
    if has(item, "each_database") or has(item, "one_database"):
        return True
    if has(item, "any_database") or has(item, "browser"):
        return False
    return "django_db_setup" in asked_for(item) or has(item, "django_db")


def is_heavy(item: pytest.Item) -> bool:
    return has(item, "process") or has(item, "browser")


def is_one_of_many(item: pytest.Item, seen: set[Path]) -> bool:
    """Whether it is heavy, not the first of its file, and runs on older versions, too."""
    return is_heavy(item) and not is_first(item, seen) and not has(item, "newest")


def is_first(item: pytest.Item, seen: set[Path]) -> bool:
    """Whether no other of its file was asked about before."""
    is_new = item.path not in seen
    seen.add(item.path)
    return is_new


def is_of_one_database(item: pytest.Item) -> bool:
    """Whether it does the same on any database. What is skipped on some has to run on all others,
    and what runs on one, on that."""
    if any(has(item, name) for name in ("each_database", "skipif", "timing")):
        return False
    is_marked = has(item, "one_database") or has(item, "process")
    return is_marked and depends_on_the_database(item)


def is_in(share: str, turn: int, item: pytest.Item) -> bool:
    """Whether it is in the N-th of M parts, "N/M", at that turn."""
    number, parts = map(int, share.split("/"))
    return (zlib.crc32(item.nodeid.encode()) + turn) % parts + 1 == number


def asked_for(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


def has(item: pytest.Item, name: str) -> bool:
    return item.get_closest_marker(name) is not None


def leave_out(
    config: pytest.Config, items: list[pytest.Item], is_out: Callable[[pytest.Item], bool]
) -> None:
    judged = [(item, is_out(item)) for item in items]
    config.hook.pytest_deselected(items=[item for item, out in judged if out])
    items[:] = [item for item, out in judged if not out]
