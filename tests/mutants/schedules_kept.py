"""Mutants of the schedules: how they are kept, who looks at them, and who may ask for one."""

from tests.mutants.mutant import in_file

MODELS = [
    (
        'if own.get("is_paused") == self.known_pause(using):',
        "if False:",
        "a save takes back the pause of somebody else",
    ),
    (
        '            broken.update(next_at=DbNow(), error="")\n',
        "            pass\n",
        "a schedule whose target was mended waits",
    ),
    (
        "self.note_written_pause(self.is_paused, using)",
        "self.was_paused = self.is_paused",
        "a pause that was rolled back counts as written",
    ),
    ("start.replace(microsecond=0) if start else None", "start", "ticks come between two seconds"),
    ("None if self.is_paused else following", "following", "a paused schedule ticks"),
]

KNOWN_PAUSE = [
    (
        "while written is not None and written not in hooks:",
        "while False:",
        "a pause that was rolled back alone counts as written",
    ),
    (
        'if read is None or "is_paused" in read:',
        "if read is None:",
        "a refresh of the pause alone forgets it",
    ),
]

MANAGERS = [
    (
        'list(rows.order_by("pk").select_for_update().values_list("pk"))',
        "pass",
        "a schedule that ticks while it is deleted is an error",
        {"database": "postgresql"},
    ),
    (
        "rows.using(self._db or router.db_for_write(self.model))",
        "rows",
        "schedules are read from a replica",
    ),
]

SYNCHRONISE = [
    (
        "rows.filter(is_declared=True).exclude",
        "rows.exclude",
        "schedules that a person has added are deleted",
    ),
    (
        "            kept.add(one.name)\n",
        "            pass\n",
        "what is declared is written and deleted",
    ),
    (
        "            rows.filter(pk=key, is_declared=True).delete()\n",
        "            pass\n",
        "what is declared no more goes on ticking",
    ),
    (
        ", ignore_conflicts=True",
        "",
        "of two workers that start one fails to write what is declared",
    ),
    (
        "    return later.exists()\n",
        "    return False\n",
        "an older worker writes back what it declares",
    ),
    (
        "if _value(row, name) != _value(stored, name)]",
        "]",
        "each start of a worker plans all schedules again",
    ),
]

REPLAN = [
    (
        "(tick is not None and tick < planned)",
        "False",
        "what a wrong clock has planned stands still until then",
    ),
    (
        '    due.update(next_at=F("next_tick"))\n',
        "    pass\n",
        "what a wrong clock has put off stands still until then",
    ),
]

SCHEDULER = [
    (
        "            self._is_planned &= not is_back\n",
        "            pass\n",
        "nobody plans again after a clock was set back",
    ),
    (
        "code not in {0, os.EX_TEMPFAIL, os.EX_UNAVAILABLE}",
        "False",
        "after a process that hung nobody looks with care",
    ),
    (
        "elif code != os.EX_TEMPFAIL:",
        "else:",
        "what the database did not let one write is not tried again",
    ),
    (
        "self._look_at = time.monotonic() + UNFIT_SECONDS\n            raise",
        "raise",
        "a database without our tables is asked each second",
    ),
    (
        "        if self._is_enqueueing():\n            return\n",
        "        self._is_enqueueing()\n",
        "two processes of one agent enqueue at once",
    ),
    ("while os.getppid() == agent and", "while", "a process that enqueues outlives its agent"),
    (
        "        signal.alarm(ENQUEUE_SECONDS_MAX)\n        session.prepare()",
        "        session.prepare()",
        "a declaration that hangs is never ended",
    ),
    (
        "    if os.getppid() == agent:\n        signal.alarm(ENQUEUE_SECONDS_MAX)\n",
        "    pass\n",
        "targets that are slow together are ended as if one of them hung",
    ),
]

TARGETS = [
    (
        "if not _fills_in(type(job)):",
        "if False:",
        "arguments that leave a row out that is needed are taken",
    ),
    (
        "if not _fills_in(type(job)):",
        "if True:",
        "arguments are refused that the project's code completes",
    ),
    ("if NUL.search(text):", "if False:", "NUL in an argument is taken"),
    (" or name in LIFECYCLE_COLUMNS:", ":", "a schedule may write the columns of a job's state"),
    (" and not field.primary_key", "", "a schedule may choose the key of its jobs"),
    (
        "filter(pk=key, status__in=WAITING).cancel()",
        "filter(pk=key).cancel()",
        "an overlap cancels a job that has ended",
    ),
    ("if using in known or", "if True or", "a schedule may be where nobody looks for its jobs"),
]

TASK_TARGET = [
    (
        'not given.keys() - {"args", "kwargs"}',
        "True",
        "a task's arguments may have other keys, which nobody reads",
    ),
    (
        "        task = task.using(**given)\n",
        "        pass\n",
        "a task's queue and priority are left out",
    ),
]

ADMIN = [
    (
        "if not self.user.has_perm(codename):",
        "if False:",
        "somebody who may not add jobs has a schedule add them",
    ),
    (
        "return not is_declared and super().has_change_permission",
        "return super().has_change_permission",
        "what is declared in code can be changed in the admin",
    ),
    (
        "return not is_declared and super().has_delete_permission",
        "return super().has_delete_permission",
        "what is declared in code can be deleted on its page",
    ),
    (
        '[_("%(name)s (declared)") % {"name": one} for one in declared]',
        "[]",
        "what is declared in code can be deleted from the list",
    ),
    (
        '@admin.action(permissions=["run"]',
        '@admin.action(permissions=["view"]',
        "all who see a schedule may run it",
    ),
]

COMMAND = [
    (
        "    if row.is_declared:\n",
        "    if False:\n",
        "the command deletes what is declared in code",
    ),
    (
        "    row.target_kind().check_database(row.target, using)\n",
        "",
        "the command adds a schedule where nobody looks for its jobs",
    ),
    (", force_insert=True", "", "the command writes over a schedule of that name"),
]

MUTANTS = [
    *in_file("schedules/models.py", MODELS),
    *in_file("schedules/known_pause.py", KNOWN_PAUSE),
    *in_file("schedules/managers.py", MANAGERS),
    *in_file("schedules/synchronise.py", SYNCHRONISE),
    *in_file("schedules/replan.py", REPLAN),
    *in_file("schedules/scheduler.py", SCHEDULER),
    *in_file("schedules/targets.py", TARGETS),
    *in_file("schedules/task_target.py", TASK_TARGET),
    *in_file("schedules/admin.py", ADMIN),
    *in_file("schedules/command.py", COMMAND),
]
