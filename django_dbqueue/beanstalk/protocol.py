"""The protocol of beanstalkd 1.13, without a socket: bytes in, commands out.

Sizes are in bytes, times in seconds. A line ends with CR LF, which counts; nothing else ends one.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from . import commands
from .commands import Command, Put, Quit

LINE_MAX = 224  # with its CR LF
TUBE_MAX = 200
JOB_SIZE = 65_535  # of a body, unless the server is told otherwise
JOB_SIZE_MAX = 2**30
U32, U64 = 2**32 - 1, 2**64 - 1
SECONDS_MAX = 2**31 - 1  # that a reserve may wait
DIGITS_MAX = 20  # of the largest number
CRLF = b"\r\n"
TUBE = re.compile(rb"[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,%d}" % (TUBE_MAX - 1))
NUMBER = re.compile(rb" *([0-9]+)")
WORD = re.compile(rb" *([^ ]+)")


class Refused(NamedTuple):
    """What came is no command that can be carried out; the connection goes on."""

    reply: bytes
    # The kind of command that it counts as in the statistics, if it was understood so far.
    kind: type[Any] | None = None


class PutLine(NamedTuple):
    """A put whose body is still to come."""

    priority: int
    delay: int
    time_to_run: int
    size: int


class TooBig(NamedTuple):
    """A put of so many bytes, which are to be passed over."""

    size: int


# From a position in a line on: the value, and the position after it; None = it makes no sense.
Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int] | None]


def _number(most: int) -> Reader:
    """Decimal digits, with spaces before them."""

    def read(line: bytes, start: int) -> tuple[int, int] | None:
        found = NUMBER.match(line, start)
        # A number of many digits is not even made one.
        if found is None or len(found[1].lstrip(b"0")) > DIGITS_MAX or int(found[1]) > most:
            return None
        return int(found[1]), found.end()

    return read


def _tube(line: bytes, start: int) -> tuple[str, int] | None:
    """All of the rest."""
    found = TUBE.fullmatch(line, start)
    return None if found is None else (found[0].decode(), found.end())


def _first_tube(line: bytes, start: int) -> tuple[str, int] | None:
    """The next word, with spaces before it."""
    found = WORD.match(line, start)
    if found is None or TUBE.fullmatch(found[1]) is None:
        return None
    return found[1].decode(), found.end()


_u32, _u64, _seconds = _number(U32), _number(U64), _number(SECONDS_MAX)

# The first one that a line begins with is meant, so that longer words come before shorter ones.
# Those that end with a space take arguments; after the others nothing may follow.
COMMANDS: tuple[tuple[bytes, type[Any], tuple[Reader, ...]], ...] = (
    (b"put ", PutLine, (_u32, _u32, _u32, _u32)),
    (b"peek ", commands.Peek, (_u64,)),
    (b"peek-ready", commands.PeekReady, ()),
    (b"peek-delayed", commands.PeekDelayed, ()),
    (b"peek-buried", commands.PeekBuried, ()),
    (b"reserve-with-timeout ", commands.ReserveWithTimeout, (_seconds,)),
    (b"reserve-job ", commands.ReserveJob, (_u64,)),
    (b"reserve", commands.Reserve, ()),
    (b"delete ", commands.Delete, (_u64,)),
    (b"release ", commands.Release, (_u64, _u32, _u32)),
    (b"bury ", commands.Bury, (_u64, _u32)),
    (b"kick ", commands.Kick, (_u64,)),
    (b"kick-job ", commands.KickJob, (_u64,)),
    (b"touch ", commands.Touch, (_u64,)),
    (b"stats-job ", commands.StatsJob, (_u64,)),
    (b"stats-tube ", commands.StatsTube, (_tube,)),
    (b"stats", commands.Stats, ()),
    (b"use ", commands.Use, (_tube,)),
    (b"watch ", commands.Watch, (_tube,)),
    (b"ignore ", commands.Ignore, (_tube,)),
    (b"list-tubes-watched", commands.ListTubesWatched, ()),
    (b"list-tube-used", commands.ListTubeUsed, ()),
    (b"list-tubes", commands.ListTubes, ()),
    (b"pause-tube", commands.PauseTube, (_first_tube, _u32)),
)
QUIT = b"quit"  # whatever follows it

BAD_FORMAT = b"BAD_FORMAT\r\n"
UNKNOWN_COMMAND = b"UNKNOWN_COMMAND\r\n"
EXPECTED_CRLF = b"EXPECTED_CRLF\r\n"
JOB_TOO_BIG = b"JOB_TOO_BIG\r\n"


class CommandReader:
    """Takes a connection's bytes apart, however they are cut.

    It holds what it was fed and has not read, so feed it no more while it has commands left; of
    a line or a body that is too long it holds nothing.
    """

    def __init__(self, job_size_max: int = JOB_SIZE) -> None:
        self.job_size_max = job_size_max
        self._buffer = bytearray()
        self._is_in_long_line = False
        self._put: PutLine | None = None  # its body comes next
        self._unwanted = 0  # bytes of a body that is too big

    def __len__(self) -> int:
        """The bytes that it holds."""
        return len(self._buffer)

    @property
    def is_amid(self) -> bool:
        """Whether a command has begun, and more of it is to come."""
        is_in_body = self._put is not None or self._unwanted > 0
        return is_in_body or self._is_in_long_line or bool(self._buffer)

    def feed(self, data: bytes | memoryview) -> None:
        self._buffer += data

    def next(self) -> Command | Refused | None:
        """The next one of what has come, in its order; None = more bytes are needed."""
        if self._unwanted:
            return self._pass_over()
        if self._put is not None:
            return self._with_body(self._put)
        return self._from_line()

    def _from_line(self) -> Command | Refused | None:
        end = self._buffer.find(CRLF)
        if end < 0:
            if len(self._buffer) >= LINE_MAX:
                self._is_in_long_line = True
                # Its last byte may be the CR of its end.
                del self._buffer[: -1 if self._buffer.endswith(b"\r") else None]
            return None
        is_long = self._is_in_long_line or end + len(CRLF) > LINE_MAX
        line = bytes(self._buffer[: 0 if is_long else end])
        del self._buffer[: end + len(CRLF)]
        self._is_in_long_line = False
        command = Refused(BAD_FORMAT) if is_long else parse(line, self.job_size_max)
        if isinstance(command, PutLine):
            self._put = command
            return self._with_body(command)
        if isinstance(command, TooBig):
            self._unwanted = command.size + len(CRLF)
            return self._pass_over()
        return command

    def _with_body(self, put: PutLine) -> Put | Refused | None:
        if len(self._buffer) < put.size + len(CRLF):
            return None
        self._put = None
        body = bytes(self._buffer[: put.size])
        trailer = self._buffer[put.size : put.size + len(CRLF)]
        del self._buffer[: put.size + len(CRLF)]
        if trailer != CRLF:
            return Refused(EXPECTED_CRLF, Put)
        return Put(put.priority, put.delay, put.time_to_run, body)

    def _pass_over(self) -> Refused | None:
        count = min(self._unwanted, len(self._buffer))
        del self._buffer[:count]
        self._unwanted -= count
        return None if self._unwanted else Refused(JOB_TOO_BIG, Put)


def parse(line: bytes, job_size_max: int) -> "Command | PutLine | TooBig | Refused":
    """Read a line without its end."""
    if b"\0" in line:
        return Refused(BAD_FORMAT)
    if line.startswith(QUIT):
        return Quit()
    for word, kind, readers in COMMANDS:
        if line.startswith(word):
            return _with_arguments(line, len(word), kind, readers, job_size_max)
    return Refused(UNKNOWN_COMMAND)


def _with_arguments(
    line: bytes, at: int, kind: type[Any], readers: Sequence[Reader], job_size_max: int
) -> Command | TooBig | Refused:
    values = []
    for read in readers:
        found = read(line, at)
        if found is None:
            return Refused(BAD_FORMAT)
        value, at = found
        values.append(value)
    # Its body comes whatever else stands in the line.
    if kind is PutLine and values[-1] > job_size_max:
        return TooBig(values[-1])
    command: Command = kind(*values)
    return command if at == len(line) else Refused(BAD_FORMAT)
