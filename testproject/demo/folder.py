"""Where the demo lives: ``.demo`` in the checkout (or DEMO_FOLDER): the logs and a SQLite file.

Where DATABASE_URL names a server, a database of the demo's own there takes the file's place.

Imports no Django: the environment must be set before the settings are read.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = Path(os.environ.get("DEMO_FOLDER", ROOT / ".demo")).resolve()
DATABASE = FOLDER / "shop.sqlite3"
LOCK = FOLDER / "lock"
URL = FOLDER / "database-url"  # of the demo's own database, for the admin


class Refused(Exception):
    """The demo cannot start; the text says why, and what to do."""


def choose_database() -> None:
    """Choose the demo's own one, and note it."""
    given = urlsplit(os.environ.get("DATABASE_URL", ""))
    own = f"sqlite:///{quote(str(DATABASE))}"
    if is_on_server(given.scheme):
        # Named as Django names those of tests, which nobody misses.
        own = given._replace(path=f"/test_{given.path.strip('/')}_demo").geturl()
    URL.touch(mode=0o600)
    URL.write_text(own)


def is_on_server(url: str) -> bool:
    return not url.startswith(("sqlite", "spatialite")) and url != ""


def set_environment(debug: bool) -> None:
    """Let this process and its children use the demo's database, and no setting of the shell's."""
    for name in list(os.environ):
        if name.startswith(("DBQUEUE_", "EMAIL_", "TEST_", "PYTEST_")):
            del os.environ[name]
    os.environ["DJANGO_SETTINGS_MODULE"] = "testproject.settings"
    os.environ["DATABASE_URL"] = URL.read_text()
    os.environ["DEBUG"] = str(int(debug))


def make_fresh() -> None:
    """Remove what an earlier demo has left."""
    for path in FOLDER.iterdir():
        if path != LOCK:
            path.unlink()


@contextmanager
def locked(*, alone: bool) -> Iterator[None]:
    """Keep a demo from deleting the database of another one, or of an admin that is looking."""
    FOLDER.mkdir(exist_ok=True)
    with LOCK.open("a") as file:
        try:
            fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            other = "A demo or its admin runs" if alone else "The demo still runs"
            raise Refused(f"{other} in {FOLDER} at the moment; end it first.") from None
        yield


def shown(path: Path) -> str:
    """The path as a user in the checkout would write it."""
    return str(path).removeprefix(f"{ROOT}/")
