"""Mutants of the commands: what they are told reaches the code that does it."""

OPTIONS, SERVED = "worker/options.py", "worker/served.py"
WORKER_REQUESTS = "monitor/worker_requests.py"
RUNWORKER, RUNREAPER = "management/commands/runworker.py", "management/commands/runreaper.py"
DBQUEUE, TYPES = "management/commands/dbqueue.py", "management/commands/_types.py"
LOG, STANDALONE_REAPER = "management/commands/_log.py", "worker/standalone_reaper.py"

MUTANTS = [
    (
        OPTIONS,
        "max_attempts=self.tries or table.policy.max_attempts",
        "max_attempts=table.policy.max_attempts",
        "--tries is not heeded",
    ),
    (
        OPTIONS,
        "backoff=self.backoff or table.policy.backoff",
        "backoff=table.policy.backoff",
        "--backoff is not heeded",
    ),
    (
        "conf/__init__.py",
        "if timeout > 2 * beat:",
        "if timeout > beat:",
        "a single late beat may make a worker look dead",
    ),
    (
        SERVED,
        'return [f"{self.label}:{name}" for name in self.wanted] or [self.label]',
        "return [self.label]",
        "a worker says that it serves all queues, whichever is named",
    ),
    (
        SERVED,
        "named = alias or using",
        "named = alias",
        "--database is not heeded where tables are named",
    ),
    (
        SERVED,
        "    if not queue:\n        raise",
        "    if False:\n        raise",
        "--except with a table leaves nothing out and says nothing",
    ),
    (
        "conf/bounds.py",
        "if not self.least <= value <= self.most:",
        "if not self.least <= value:",
        "a slip of the finger forks until the host stands still",
    ),
    (
        RUNWORKER,
        'if not given["skip_checks"]:',
        "if True:",
        "--skip-checks is not heeded",
    ),
    (
        TYPES,
        "return _whole(text, 1)",
        "return _whole(text, 0)",
        "--max-jobs 0 is taken for a number of jobs",
    ),
    (
        TYPES,
        "if 0 <= float(text) <= MAX_SECONDS:",
        "if 0 <= float(text):",
        "a number of seconds may be infinite",
    ),
    (
        RUNREAPER,
        'interval = conf.judged("REAP_INTERVAL") if interval is None else interval',
        'interval = conf["REAP_INTERVAL"]',
        "--interval is not heeded",
    ),
    (
        RUNREAPER,
        'all_served(options["database"])',
        "all_served(None)",
        "--database is not heeded by a reaper",
    ),
    (
        STANDALONE_REAPER,
        "reaper.turn(judge=lambda: False)",
        "reaper.turn(judge=lambda: True)",
        "runreaper --once takes a worker that is a little late for dead",
    ),
    (
        "management/status.py",
        'parse_served(options["tables"], options["database"])',
        'parse_served(options["tables"])',
        "--database is not heeded by status",
    ),
    (
        DBQUEUE,
        "ask(asked, [options[asked]], using)",
        "ask(asked, [options[asked]], None)",
        "--database is not heeded by workers --stop",
    ),
    (
        DBQUEUE,
        'if options["dry_run"]:',
        "if False:",
        "adopt --dry-run writes a migration",
    ),
    (
        DBQUEUE,
        "    if examined.is_clean:\n        return text\n",
        "    if text:\n        return text\n",
        "dbqueue check exits with 0 whatever it has found",
    ),
    (
        LOG,
        "    if logger.handlers:\n        return",
        "    if False:\n        return",
        "the project's LOGGING gets a second handler next to its own",
    ),
    (
        LOG,
        "return (super().formatMessage(record) + fields).translate(VISIBLE)",
        "return super().formatMessage(record) + fields",
        "an error's line breaks make lines of their own in the log",
    ),
    (
        WORKER_REQUESTS,
        "[worker for worker in list_workers(using) if worker.lives]",
        "list_workers(using)",
        "a dead worker is asked to stop instead of its namesake",
    ),
    (WORKER_REQUESTS, "len(prefix) >= UUID_PREFIX_MIN and ", "", "one letter stops a worker"),
    (
        WORKER_REQUESTS,
        "one_meaning = len(meanings) <= 1 and len({w.uuid for w in by_uuid}) <= 1",
        "one_meaning = len(meanings) <= 1",
        "the beginning of two uuids stops both",
    ),
]
