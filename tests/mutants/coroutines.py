"""Mutants of what runs jobs that are coroutines."""

COROUTINES, RUN, LOOP, MEMORY = (
    "worker/coroutines.py",
    "worker/coroutine_run.py",
    "worker/event_loop.py",
    "worker/shared_memory.py",
)
CHANNEL, CLAIMERS = "worker/channel.py", "worker/claimers.py"

MUTANTS = [
    (
        RUN,
        "            self.cancel(TimeToRunExceeded(words))",
        "            pass",
        "a coroutine over its time to run is not cancelled",
    ),
    (
        RUN,
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
        "        return self._slots.get()",
        "        return self.shared.coroutine_slot(0)",
        "more coroutines run at once than may",
    ),
    (
        COROUTINES,
        "        await run.under_way.end()\n",
        "",
        "what a coroutine leaves under way goes on without it",
    ),
    (
        RUN,
        " or left.tasks or left.calls",
        " or left.calls",
        "a task that a coroutine leaves is not waited for",
    ),
    (
        RUN,
        " or left.tasks or left.calls",
        " or left.tasks",
        "a thread that a coroutine leaves is not waited for",
    ),
    (
        COROUTINES,
        "self._loop.call_soon(exit_if_it_fails, self._end, run, context=run.context)",
        "exit_if_it_fails(self._end, run)",
        "what a coroutine begins as it ends goes on without it",
    ),
    (
        COROUTINES,
        "LifeTask(rest, loop=self._loop, context=run.context)",
        "LifeTask(rest, loop=self._loop)",
        "a trace of a coroutine ends elsewhere than it has begun",
    ),
    (
        RUN,
        ' or policy.finish == "each"',
        "",
        "a coroutine that is to be committed at once waits for others",
    ),
    (
        RUN,
        "        return not (takes_time or is_gone) and self.job.holds_claim()",
        "        return not (takes_time or is_gone)",
        "a coroutine that has ended by itself ends twice",
    ),
    (
        RUN,
        "(takes_time or is_gone)",
        "takes_time",
        "a coroutine whose row is gone is tried again",
    ),
    (
        LOOP,
        "        return not is_others and super().cancel(msg)",
        "        return super().cancel(msg)",
        "a coroutine cancels all others",
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
