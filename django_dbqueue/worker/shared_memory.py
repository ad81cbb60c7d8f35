"""Memory that a supervisor shares with one child: what it runs, and whether the beats go on."""

import mmap
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

LABEL_BYTES_MAX = 16_000  # of a runner thread's slot
ONE_LABEL_BYTES_MAX = 1200  # of a coroutine's slot, which holds one job
SEPARATOR = "\x1f"
WORD_BYTES = 8  # a word that is aligned is written, and read, as a whole
PAUSED, EXIT_STATUS, STUCK, TAKEN, SHARED, ALONE = range(6)
# Which coroutine has its turn on the event loop (its slot and 1; 0 = none), and since when.
TURN, TURN_SINCE = range(6, 8)
HAS_WRITTEN = 8  # all that it had to write before it is killed
HEAD_WORDS = 9
# Of each database.
EPOCH, BEATEN_AT = range(2)
BEAT_WORDS = 2
# The deadline (0 = idle), the start, the thread, the jobs so far, the label's length, in how many
# threads a coroutine has something done; the label.
DEADLINE, STARTED_AT, THREAD, JOBS, LENGTH, IN_THREADS, LABEL = range(7)
SLOT_WORDS = LABEL + LABEL_BYTES_MAX // WORD_BYTES
COROUTINE_WORDS = LABEL + ONE_LABEL_BYTES_MAX // WORD_BYTES
HELD_UP_SECONDS = 1.0  # for which one coroutine may keep all others from their turns
# What a supervisor may say to a child, by the pipe between them.
STOP, WRITE_STACKS, CANCEL = b"!", b"?", b"x"


class Role(IntEnum):
    """Which jobs a child runs."""

    ORDINARY = 0  # all but suspects
    SHARED = SHARED  # suspects, in several threads
    ALONE = ALONE  # suspects with two crashes, one at a time
    EVERYTHING = -1  # where there is no other process


SACRIFICIAL = (Role.SHARED, Role.ALONE)


class ExitStatus(IntEnum):
    """Why a child leaves in good order; without one it has died."""

    NONE = 0
    ASKED = 1
    EMPTY = 2
    ENOUGH = 3  # it has run as many jobs as it may


@dataclass(frozen=True, slots=True)
class Running:
    """One job that a runner thread, or an event loop, has in hand; times are monotonic."""

    using: str
    table: str
    key: str
    deadline: float
    started_at: float
    thread: int
    executes: bool = True  # False: a coroutine that waits


class SharedMemory:
    """One head, the beats on each database, and a slot per runner thread and per coroutine.

    The supervisor writes the epochs, the last good beats and the pause; the child the rest. The
    epoch of a database changes whenever jobs that were claimed there before may have been reaped
    meanwhile.
    """

    def __init__(
        self, threads: int, aliases: Iterable[str] = ("default",), coroutines: int = 0
    ) -> None:
        self.threads = threads
        self.aliases = tuple(aliases)
        self._beats = {name: HEAD_WORDS + n * BEAT_WORDS for n, name in enumerate(self.aliases)}
        first = HEAD_WORDS + len(self._beats) * BEAT_WORDS
        second = first + threads * SLOT_WORDS
        end = second + coroutines * COROUTINE_WORDS
        # Of each slot, the threads' first.
        self._slots = [*range(first, second, SLOT_WORDS), *range(second, end, COROUTINE_WORDS)]
        self._memory = mmap.mmap(-1, end * WORD_BYTES)
        self._times = memoryview(self._memory).cast("d")
        self._numbers = memoryview(self._memory).cast("Q")

    def beat(self, alias: str, at: float, epoch: int) -> None:
        # The epoch first: nobody may see a fresh beat with an old one.
        self._numbers[self._beats[alias] + EPOCH] = epoch
        self._times[self._beats[alias] + BEATEN_AT] = at

    def beaten_at(self, alias: str) -> float:
        return self._times[self._beats[alias] + BEATEN_AT]

    def epoch(self, alias: str) -> int:
        return self._numbers[self._beats[alias] + EPOCH]

    def last_beat(self, alias: str) -> tuple[float, int]:
        """When it was, and the epoch by then."""
        beat = self._beats[alias]
        # In this order: it may be written meanwhile.
        beaten_at = self._times[beat + BEATEN_AT]
        return beaten_at, self._numbers[beat + EPOCH]

    @property
    def missed_since(self) -> float:
        """Of the database that has had no beat for the longest, its last one."""
        return min(map(self.beaten_at, self._beats))

    @property
    def paused(self) -> bool:
        return bool(self._numbers[PAUSED])

    @paused.setter
    def paused(self, paused: bool) -> None:
        self._numbers[PAUSED] = paused

    @property
    def exit_status(self) -> ExitStatus:
        return ExitStatus(self._numbers[EXIT_STATUS])

    @exit_status.setter
    def exit_status(self, exit_status: ExitStatus) -> None:
        self._numbers[EXIT_STATUS] = exit_status

    @property
    def stuck(self) -> int:
        """How many outcomes cannot be recorded for now."""
        return self._numbers[STUCK]

    @stuck.setter
    def stuck(self, count: int) -> None:
        self._numbers[STUCK] = count

    @property
    def has_written(self) -> bool:
        """Whether a child that is to be killed has written what it had to write."""
        return bool(self._numbers[HAS_WRITTEN])

    @has_written.setter
    def has_written(self, has_written: bool) -> None:
        self._numbers[HAS_WRITTEN] = has_written

    def hand_over(self, role: Role) -> None:
        """A suspect was claimed for a sacrificial child of this role."""
        self._numbers[role] += 1

    def handed_over(self, role: Role) -> int:
        """How many so far."""
        return self._numbers[role]

    @property
    def taken(self) -> int:
        """How many of these a sacrificial child has taken over so far."""
        return self._numbers[TAKEN]

    @taken.setter
    def taken(self, count: int) -> None:
        self._numbers[TAKEN] = count

    @property
    def jobs(self) -> int:
        """How many jobs were started so far."""
        return sum(self._numbers[slot + JOBS] for slot in self._slots)

    def slot(self, thread: int) -> "ThreadSlot":
        return ThreadSlot(*self._part(thread, SLOT_WORDS))

    def coroutine_slot(self, number: int) -> "CoroutineSlot":
        at = self.threads + number
        return CoroutineSlot(at, *self._part(at, COROUTINE_WORDS))

    def _part(
        self, number: int, words: int
    ) -> tuple["memoryview[float]", "memoryview[int]", "memoryview[int]"]:
        first = self._slots[number]
        text = memoryview(self._memory)[(first + LABEL) * WORD_BYTES : (first + words) * WORD_BYTES]
        return self._times[first : first + words], self._numbers[first : first + words], text

    def begin_turn(self, slot: "CoroutineSlot", now: float) -> None:
        """For the event loop's thread: whose code it runs from here on."""
        # In this order: nobody may see a new turn with an old time.
        self._times[TURN_SINCE] = now
        self._numbers[TURN] = slot.number + 1

    def end_turn(self) -> None:
        self._numbers[TURN] = 0

    def running(self) -> list[Running]:
        found: list[Running] = []
        for number, deadline in enumerate(self._deadlines()):
            if deadline:
                found += self._jobs(number, deadline)
        return found

    def busy(self) -> tuple[int, int]:
        """How many threads have something in hand, and how many coroutines are under way."""
        deadlines = self._deadlines()
        return sum(map(bool, deadlines[: self.threads])), sum(map(bool, deadlines[self.threads :]))

    def overdue(self, now: float) -> list[Running]:
        """What is over its time to run; in place of coroutines, that one which has held all of them
        up for long."""
        deadlines = self._deadlines()
        late = {number for number, deadline in enumerate(deadlines) if 0 < deadline < now}
        turn, since = self._numbers[TURN] - 1, self._times[TURN_SINCE]
        coroutines = {number for number in late if number >= self.threads}
        if coroutines and turn >= 0 and deadlines[turn] and now - since > HELD_UP_SECONDS:
            late = late - coroutines | {turn}
        return [job for number in sorted(late) for job in self._jobs(number, deadlines[number])]

    def _deadlines(self) -> list[float]:
        return [self._times[slot + DEADLINE] for slot in self._slots]

    def _jobs(self, number: int, deadline: float) -> list[Running]:
        """What stands in one slot, whose deadline, which its owner may change now, was read."""
        slot = self._slots[number]
        begin, length = (slot + LABEL) * WORD_BYTES, self._numbers[slot + LENGTH]
        text = self._memory[begin : begin + length].decode(errors="replace")
        using, table, *keys = text.split(SEPARATOR)
        started_at = self._times[slot + STARTED_AT]
        is_at_work = self._numbers[TURN] == number + 1 or self._numbers[slot + IN_THREADS] > 0
        executes = number < self.threads or is_at_work
        thread = self._numbers[slot + THREAD]
        return [Running(using, table, key, deadline, started_at, thread, executes) for key in keys]


class ThreadSlot:
    """One runner thread's part of the shared memory, for itself to write."""

    def __init__(
        self, times: "memoryview[float]", numbers: "memoryview[int]", text: "memoryview[int]"
    ) -> None:
        self._times = times
        self._numbers = numbers
        self._text = text
        self._room = text.nbytes

    def runs_in(self, thread: int) -> None:
        """Whose stack is of interest, from here on."""
        self._numbers[THREAD] = thread

    def start(self, label: bytes, now: float, deadline: float, jobs: int = 1) -> None:
        """``now``: by the monotonic clock; ``label``: the database, the table and the keys, with
        separators."""
        size = len(label)
        if size > self._room:
            label = label[: self._room].rpartition(SEPARATOR.encode())[0]
            size = len(label)
        numbers, times = self._numbers, self._times
        self._text[:size] = label
        numbers[LENGTH] = size
        numbers[JOBS] += jobs
        times[STARTED_AT] = now
        times[DEADLINE] = deadline

    def extend(self, deadline: float) -> None:
        self._times[DEADLINE] = deadline

    def finish(self) -> None:
        self._times[DEADLINE] = 0.0


class CoroutineSlot(ThreadSlot):
    """The part of a coroutine; the thread of its event loop, and who starts it, write it."""

    def __init__(
        self,
        number: int,
        times: "memoryview[float]",
        numbers: "memoryview[int]",
        text: "memoryview[int]",
    ) -> None:
        super().__init__(times, numbers, text)
        self.number = number

    def note_threads(self, count: int) -> None:
        """In how many threads, next to the loop's, it has something done now."""
        self._numbers[IN_THREADS] = count
