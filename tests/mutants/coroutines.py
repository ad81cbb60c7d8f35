"""Mutants of what runs jobs that are coroutines."""

COROUTINES, LOOP, MEMORY = (
    "worker/coroutines.py",
    "worker/event_loop.py",
    "worker/shared_memory.py",
)
CHANNEL, CLAIMERS = "worker/channel.py", "worker/claimers.py"

MUTANTS = [
    (
        COROUTINES,
        "            self.cancel(TimeToRunExceeded(words))",
        "            pass",
        "a coroutine over its time to run is not cancelled",
    ),
    (
        COROUTINES,
        "        self.deadline = time.monotonic() + self.seconds\n",
        "",
        "a touch does not keep a coroutine from being cancelled",
    ),
    (
        COROUTINES,
        "            run.cancel(GivenBack())",
        "            pass",
        "what still runs as the grace ends is cut off, not cancelled",
    ),
    (
        COROUTINES,
        "        context = self._context.copy()",
        "        context = self._context",
        "coroutines share one context",
    ),
    (
        COROUTINES,
        "            self._others.acquire()",
        "            pass",
        "more coroutines run at once than may",
    ),
    (
        COROUTINES,
        "        await self.under_way.end()\n",
        "",
        "what a coroutine leaves under way goes on without it",
    ),
    (
        LOOP,
        "        self.shared.begin_turn(mine.slot, now)\n",
        "",
        "nobody knows which coroutine has killed the process",
    ),
    (
        LOOP,
        "                mine.slot.note_threads(mine.in_threads)",
        "                pass",
        "nobody knows which coroutine's thread has killed the process",
    ),
    (
        LOOP,
        "                reset_connections(failed=has_failed)",
        "                pass",
        "a coroutine gets the transaction that another has left open",
    ),
    (
        LOOP,
        "        except (SystemExit, KeyboardInterrupt):\n            pass",
        "        except ZeroDivisionError:\n            pass",
        "a coroutine that exits ends the event loop",
    ),
    (
        LOOP,
        "                mine.is_known_to_block = True\n",
        "",
        "a coroutine that blocks is named again and again",
    ),
    (
        MEMORY,
        "            late = late - coroutines | {turn}",
        "            pass",
        "who is late since another blocks the loop pays for it",
    ),
    (
        CHANNEL,
        "            started = [job for job in started if job.executes]\n",
        "",
        "a crash is charged to all coroutines that waited",
    ),
    (
        CHANNEL,
        "child.role is Role.ORDINARY or any(job.executes for job in started)",
        "True",
        "a coroutine whose process is killed by others is never buried",
    ),
    (
        CLAIMERS,
        "            claimer.allotment = self.all[0].allotment",
        "            pass",
        "threads and coroutines may run --max-jobs each",
    ),
]
