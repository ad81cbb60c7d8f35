"""Mutants of the schedules: when they tick, and what becomes of each tick."""

from tests.mutants.mutant import in_file

TIMING = [
    ("// self.every + 1\n", "// self.every\n", "an interval's tick comes again"),
    ("number = max(0, number)", "pass", "an interval ticks before its start"),
    (
        "max(instant, self.start - SECOND)",
        "max(instant, self.start)",
        "a cron tick at the start itself is left out",
    ),
    (
        "instant = max(instant, self.start - SECOND)",
        "pass",
        "a cron expression ticks before its start",
    ),
    (
        "instant = instant.replace(microsecond=0)\n        if",
        "if",
        "the search for a change of the clock from between two seconds never ends",
    ),
    ("if tick > last:", "if True:", "times in a gap of the clock tick twice"),
    (
        "self._hourly(instant) if self._is_hourly else",
        "",
        "a tick of every hour is left out where the clock is set back",
    ),
    (
        "if self._is_hourly else self._daily(instant)",
        "",
        "a time of day ticks twice where the clock is set back",
    ),
    (
        "_change(instant, tick, self.zone) - SECOND",
        "_change(instant, tick, self.zone)",
        "a tick at the change of the clock is left out",
    ),
    (
        "return (instant + SECOND).astimezone",
        "return instant.astimezone",
        "the offset before a change of the clock is taken for the next one",
    ),
    ("wall += MINUTE", "wall += 60 * MINUTE", "a time in a gap of the clock ticks long after it"),
    (" or len(timing) > CRON_CHARS_MAX", "", "a cron expression has no limit"),
    ("if not 1 <= seconds", "if not 0 <= seconds", "an interval may be nothing"),
    (
        "if START_YEAR_MIN <= start.year <= START_YEAR_MAX:",
        "if True:",
        "a start in the year 9999 is taken",
    ),
    (
        "if next(replace(cron, start=None).after(start or EPOCH), None) is None:",
        "if False:",
        "a date that there is not is taken",
    ),
    (
        "(until - since) // timing.every + 1)",
        "(until - since) // timing.every)",
        "of the ticks that are due the first is left out",
    ),
    (
        "begin = max(since, until - span)",
        "begin = until - span",
        "a tick of before its time counts as missed",
    ),
    (
        "timing.after(since - SECOND)",
        "timing.after(since)",
        "a tick at the very time from which one looks is left out",
    ),
]

PLANNING = [
    (
        "recent = max(first, now - timedelta(seconds=LATE_SECONDS))",
        "recent = first",
        "what was missed is enqueued whatever the schedule says",
    ),
    (
        "recent = max(first, now - timedelta(seconds=LATE_SECONDS))",
        "recent = now",
        "a tick that is looked at a moment late counts as missed",
    ),
    (
        "oldest = max(first, now - timedelta(seconds=within))",
        "oldest = first",
        "ticks of any age are made up for",
    ),
    (
        "missed == Missed.LATEST and not due",
        "missed == Missed.LATEST",
        "of several ticks in time all but the latest are left out",
    ),
    (
        "if is_tried and oldest == first <= now:",
        "if oldest == first <= now:",
        "a tick that was missed is enqueued as if it had been tried",
    ),
    (
        "if is_tried and oldest == first <= now:",
        "if False:",
        "a tick whose target was broken counts as missed",
    ),
    (
        "    left_out = following(timing, first)\n",
        "    left_out = None\n",
        "ticks that were missed behind a broken one are not told",
    ),
    (
        "left_out = following(timing, first - timedelta(microseconds=1))",
        "left_out = first",
        "a tick of another time zone counts as missed",
    ),
    (
        "due[CHUNK_TICKS] if len(due) > CHUNK_TICKS else following(timing, now)",
        "following(timing, now)",
        "ticks beyond the first chunk are lost",
    ),
    (
        "newest(timing, oldest, now, CATCH_UP_MAX)",
        "newest(timing, oldest, now, 10**6)",
        "any number of ticks is made up for",
    ),
]

TICKING = [
    (
        "if TARGETS[schedule.kind].rolls_back or len(its.ticks) < 2:",
        "if True:",
        "what a broker has got is sent again when a later call fails",
    ),
    (
        "        turn.is_lost = True\n",
        "        pass\n",
        "two that look at once race for each tick",
    ),
    (
        "if (schedule.pk, tick) not in known]",
        "]",
        "a tick comes again after the clock was set back",
    ),
    (
        "filter(pk=schedule.pk, next_tick=schedule.next_tick)",
        "filter(pk=schedule.pk)",
        "two workers enqueue one tick",
    ),
    (
        "        _respell(schedule, using)\n        turn",
        "        turn",
        "a tick that a hand has written on SQLite stands still",
    ),
    (
        "        _read_last(schedule, using)\n    made",
        "        pass\n    made",
        "an overlap does not see what somebody has run by hand meanwhile",
    ),
    (
        "if row.note and schedule.overlap == Overlap.SKIP:",
        "if schedule.overlap == Overlap.SKIP:",
        "a tick is skipped though the last job has ended",
    ),
    (
        "    except ValidationError:  # its table is gone, and with it the job\n",
        "    except ZeroDivisionError:\n",
        "a table that is gone stops its schedule's next target",
    ),
    (
        "        note_last(schedule, using)\n    prune",
        "        pass\n    prune",
        "the last job is not remembered for the next overlap",
    ),
    (
        "if is_last or _state_of_last(schedule, using) is State.ENDED:",
        "if True:",
        "what a person asks for hides a job that still runs from the next overlap",
    ),
    (
        "    if not schedule.last_job:\n",
        "    if False:\n",
        "an overlap does not see what came while it was allowed",
    ),
    (
        '        steps["last_job"] = ""',
        "        pass",
        "an overlap looks at a job of before it was allowed",
    ),
    (
        "    if count % KEPT_TICKS + more < KEPT_TICKS:\n        return\n",
        "    return\n",
        "the rows of ticks are never deleted",
    ),
]

FIRING = [
    (
        "    if shared and _failure(shared, how) is None:\n",
        "    if shared and (_failure(shared, how) or True):\n",
        "a schedule that fails takes with it those of its transaction",
    ),
    (
        ".rolls_back and not turn.schedule.was_tried",
        ".rolls_back",
        "one that failed spoils the transaction of others each time",
    ),
    (
        "return TARGETS[turn.schedule.kind].rolls_back and",
        "return",
        "a target that does not roll back is asked again because another one failed",
    ),
    (
        "not turn.schedule.was_tried\n",
        "not turn.schedule.error\n",
        "one that never returned spoils the transaction of others each time",
    ),
    ("[] if how.is_careful else [", "[", "a careful look has schedules share a transaction"),
    (
        "            _put_off(turn.schedule, using)\n",
        "            pass\n",
        "one that never returns is the first to be tried again",
    ),
    (
        "return turn.schedule.was_tried, not",
        "return False, not",
        "others wait for those that did not return the last time",
    ),
    (
        "return turn.schedule.was_tried, not TARGETS[turn.schedule.kind].rolls_back",
        "return turn.schedule.was_tried, False",
        "queue tables wait for each schedule of a broker that hangs",
    ),
    (
        "if isinstance(outcome.error, Error) and (known is None or is_lost):",
        "if isinstance(outcome.error, Error):",
        "a target's error of the database stops all schedules",
    ),
    (
        "if isinstance(outcome.error, Error) and (known is None or is_lost):",
        "if isinstance(outcome.error, Error) and known is None:",
        "a lost connection is recorded as the fault of a target",
    ),
    (
        "RETRY_SECONDS if _kind(error, using) is None else SOON_SECONDS",
        "RETRY_SECONDS",
        "after a lock a tick is put off until it is missed",
    ),
    (
        "        rows = rows.filter(next_tick=schedule.next_tick)\n",
        "        pass\n",
        "a failure puts off a tick that somebody else has moved on",
    ),
    (
        "waits[0] if len(waits) >= LOCK_WAITS_MAX else _failure([step], how)",
        "_failure([step], how)",
        "each schedule waits for the same locked table",
    ),
    (
        "            if len(held_up) >= LOCK_WAITS_MAX:\n                break\n",
        "",
        "a look waits for the lock of each schedule",
        {"database": "postgresql"},
    ),
    (
        '        if not rows.update(count=F("count") + 1):\n            raise ScheduleGone\n',
        '        rows.update(count=F("count") + 1)\n',
        "one who runs a schedule that was deleted is not told so",
    ),
    (
        "        rows.filter(pk=first.key).update(next_at=DbNow())\n",
        "        pass\n",
        "a time that nobody can read stops all schedules behind it",
    ),
    (
        '        prune(schedule, rows.values_list("count", flat=True).get() - 1, 1, using)\n',
        "",
        "the rows of what people run by hand are never deleted",
    ),
    (
        "clean(problem)[:ERROR_CHARS_MAX]",
        "problem",
        "an error that does not fit its column stops the schedule",
    ),
]

AFTER_COMMIT = [
    (
        "[schedule] * (number - len(self._whose))",
        "[]",
        "an error after the commit counts as if nothing had been enqueued",
    ),
    (
        "[schedule] * (number - len(self._whose))",
        "[schedule] * number",
        "an error after the commit is put down to another schedule",
    ),
]

MUTANTS = [
    *in_file("schedules/timing.py", TIMING),
    *in_file("schedules/planning.py", PLANNING),
    *in_file("schedules/ticking.py", TICKING),
    *in_file("schedules/firing.py", FIRING),
    *in_file("schedules/after_commit.py", AFTER_COMMIT),
]
