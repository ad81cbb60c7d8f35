"""The commands of beanstalkd, as they were understood; times in seconds."""

from typing import NamedTuple, TypeAlias


class Put(NamedTuple):
    priority: int
    delay: int
    time_to_run: int
    body: bytes


class Use(NamedTuple):
    tube: str


class Watch(NamedTuple):
    tube: str


class Ignore(NamedTuple):
    tube: str


class Reserve(NamedTuple):
    """Waits until there is a job."""


class ReserveWithTimeout(NamedTuple):
    seconds: int


class ReserveJob(NamedTuple):
    id: int


class Delete(NamedTuple):
    id: int


class Release(NamedTuple):
    id: int
    priority: int
    delay: int


class Bury(NamedTuple):
    id: int
    priority: int


class Touch(NamedTuple):
    id: int


class Kick(NamedTuple):
    bound: int


class KickJob(NamedTuple):
    id: int


class Peek(NamedTuple):
    id: int


class PeekReady(NamedTuple):
    """The next one of the used tube."""


class PeekDelayed(NamedTuple):
    """The one that is due next."""


class PeekBuried(NamedTuple):
    """The one that was buried first."""


class StatsJob(NamedTuple):
    id: int


class StatsTube(NamedTuple):
    tube: str


class Stats(NamedTuple):
    """Of the server."""


class ListTubes(NamedTuple):
    """All that exist."""


class ListTubeUsed(NamedTuple):
    """The one that puts go to."""


class ListTubesWatched(NamedTuple):
    """Those that reserves look at."""


class PauseTube(NamedTuple):
    tube: str
    seconds: int


class Quit(NamedTuple):
    """Ends the connection, once what came before is answered."""


Command: TypeAlias = (
    Put | Use | Watch | Ignore | Reserve | ReserveWithTimeout | ReserveJob | Delete | Release
    | Bury | Touch | Kick | KickJob | Peek | PeekReady | PeekDelayed | PeekBuried | StatsJob
    | StatsTube | Stats | ListTubes | ListTubeUsed | ListTubesWatched | PauseTube | Quit
)  # fmt: skip
