"""Mutants of looks at many tables in one statement."""

LOOK, TABLES = "worker/joint_look.py", "lifecycle/many_tables.py"
POLLER, REAPER = "worker/queue_poller.py", "worker/reaper.py"

MUTANTS = [
    (
        LOOK,
        "self._not_before[alias] = time.monotonic() + LOCKED_SECONDS",
        "pass",
        "a table with trouble is asked for with all others again and again",
    ),
    (
        TABLES,
        "if is_slow(part[0], time.monotonic() - began, width * len(part)):",
        "if False:",
        "slow looks at many tables go on, and no table gets a low-water mark",
    ),
    (
        POLLER,
        "if has_ready.get(poller.served.place) is False:",
        "if not has_ready.get(poller.served.place):",
        "a table that nobody looked at counts as empty",
    ),
    (
        POLLER,
        "self._whole_since, self.is_locked = since, False",
        "self._whole_since, self.is_locked = None, False",
        "a look at many tables proves of none that it is empty",
    ),
    (
        POLLER,
        "if self.has_some and not self.queues:",
        "if False:",
        "a table with jobs for others has all tables looked at again and again",
        {"tests": ("tests/worker/test_many_tables.py",)},
    ),
    (
        POLLER,
        "            self._is_left_out = False\n",
        "",
        "a table that was locked once is looked at by itself for good",
        {"tests": ("tests/worker/test_many_tables.py",)},
    ),
    (
        REAPER,
        "(self._unread.add if known is None else self._unread.discard)(table.place)",
        "self._unread.add(table.place)",
        "a table that was once looked at by itself always is",
        {"tests": ("tests/worker/test_many_tables.py",)},
    ),
    (
        REAPER,
        "                lows.forget()\n",
        "                pass\n",
        "what a pass has found before an error waits for a whole look",
        {"tests": ("tests/lifecycle/test_low_instants.py",)},
    ),
    (
        "worker/wakeup.py",
        "        if self._looks_left < 0:\n",
        "        if False:\n",
        "who hears of others' jobs looks as often as these come",
        {"tests": ("tests/worker/test_wakeup.py",)},
    ),
    (
        REAPER,
        "self.clean_at[table.place] = 0.0 if count else next_at",
        "self.clean_at[table.place] = next_at",
        "a table with more to archive waits for its next turn",
    ),
]
