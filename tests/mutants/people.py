"""Mutants of what people and workers do: operator.py, the models, the heartbeat, the reaper."""

OPERATOR, ENQUEUE = "lifecycle/operator.py", "lifecycle/enqueue.py"
JOB, QUERYSET = "models/job.py", "models/queryset.py"
ENQUEUED = "models/enqueued.py"
QUEUE, WORKER = "models/queue.py", "models/worker.py"
HEARTBEAT, REAPER = "worker/heartbeat.py", "worker/reaper.py"

MUTANTS = [
    (
        OPERATOR,
        'f"+status = %s AND {same}", [status, *its]',
        '"status = %s", [status]',
        "a person's verb hits a job that another has claimed since the look",
    ),
    (
        OPERATOR,
        'f"+status = %s AND {same}", [status, *its]',
        "same, its",
        "a person's verb hits a job in another state than it saw",
    ),
    (OPERATOR, "NULL, attempts = 0, crashes", "NULL, crashes", "a kick gives back no attempts"),
    (OPERATOR, "crashes = 0, losses", "losses", "a kick forgives no crashes"),
    (OPERATOR, '", finished_at = NULL, ', '", ', "a kicked job counts as finished"),
    (OPERATOR, ', failure = NULL"', '"', "a kicked job keeps its failure"),
    (
        OPERATOR,
        "retry_at = NULL, attempts = 0, crashes",
        "attempts = 0, crashes",
        "a kick leaves a time",
    ),
    (OPERATOR, 'MOVES["kick"][0], sets', "set(Status), sets", "a kick of any job"),
    (
        OPERATOR,
        'MOVES["bury"][0], sets',
        "set(Status), sets",
        "a finished job may be buried",
    ),
    (OPERATOR, 'seen, MOVES["release"][0], f', "seen, set(Status), f", "a release of any job"),
    (
        OPERATOR,
        'f"{sets}, attempts = {ONE_LESS}")',
        "sets)",
        "a job that a person takes away is charged its attempt",
    ),
    (
        OPERATOR,
        "result.skipped += len(chunk) - count",
        "result.skipped += 0",
        "nobody is told of skipped jobs",
    ),
    (
        ENQUEUE,
        "job.status = Status.READY if job.retry_at is None else Status.DELAYED",
        "job.status = Status.READY",
        "a job with a time is ready at once",
    ),
    (
        ENQUEUE,
        "job.attempts = job.crashes = job.losses = 0",
        "job.crashes = job.losses = 0",
        "a new job has attempts",
    ),
    (
        JOB,
        "if table.connection.get_autocommit():",
        "if True:",
        "a zombie's transaction commits next to the completion of a job that is done or gone",
    ),
    (
        JOB,
        "if not self._table().connection.get_autocommit():",
        "if False:",
        "a zombie's transaction commits next to another end of a job that is gone",
    ),
    (
        JOB,
        "        if not self.holds_claim():\n            return super()._do_update",
        "        if True:\n            return super()._do_update",
        "who has lost a job may save it",
    ),
    (
        JOB,
        "        if not result:\n            raise ClaimLost",
        "        if False:\n            raise ClaimLost",
        "who has lost a job believes that it was saved",
    ),
    (
        JOB,
        'NOT_SAVED = LIFECYCLE_COLUMNS | {"created_at"}',
        'NOT_SAVED = {"created_at"}',
        "saving writes what only the lifecycle may",
    ),
    (
        JOB,
        "        self._judge(written)\n        self._let_go()",
        "        self._judge(written)",
        "an ended claim is still held",
    ),
    (
        JOB,
        "            connection.on_commit(self._forget_claim)",
        "            self._forget_claim()",
        "a claim is lost by a transaction that is rolled back",
    ),
    (
        JOB,
        "        if written.lost:\n            raise ClaimLost",
        "        if False:\n            raise ClaimLost",
        "who has lost a job believes that it was completed",
    ),
    (
        JOB,
        "if not self.holds_claim() or self.claim_owner is None:\n",
        "if False:\n",
        "who holds no claim is told nothing",
    ),
    (
        QUERYSET,
        "if not is_among(paused, self.model, name)",
        "if True",
        "a paused queue is claimed from",
    ),
    (
        ENQUEUE,
        "key = retry(table.connection, run)\n    return table",
        "key = run()\n    return table",
        "an insert that was rolled back for another's sake is an error",
    ),
    (
        "models/index.py",
        "IF(dedup_key IS NULL, NULL, queue)",
        "queue",
        "a job without a key has its queue in the unique index",
        {"database": "mariadb"},
    ),
    (
        "models/enqueued.py",
        "filter(queue=job.queue, dedup_key=job.dedup_key)",
        "filter(dedup_key=job.dedup_key)",
        "a twin is looked for in all queues",
    ),
    (
        ENQUEUED,
        "return Enqueued(twin, created=False, outcome=outcome)",
        "return Enqueued(twin, created=True, outcome=outcome)",
        "a twin counts as new",
    ),
    (QUEUE, "paused_until__gt=DbNow()", "paused_until__isnull=False", "a pause never ends"),
    (
        WORKER,
        "filter(stopped_at=None, beat_at__lt=DbNow(plus=-worker_timeout))",
        "filter(stopped_at=None, beat_at__lt=DbNow())",
        "every worker is silent",
    ),
    (
        WORKER,
        "filter(stopped_at=None, beat_at__lt=DbNow(plus=-worker_timeout))",
        "filter(beat_at__lt=DbNow(plus=-worker_timeout))",
        "a worker that signed off is silent",
    ),
    (
        HEARTBEAT,
        "unbroken = self.last.at - self.good_since >= self.timeout",
        "unbroken = True",
        "a worker judges others right after its own outage",
    ),
    (
        HEARTBEAT,
        "return unbroken and time.monotonic() - self.last.at < self.timeout / 2",
        "return unbroken",
        "a worker judges others during its own outage",
    ),
    (
        HEARTBEAT,
        "            self._turn_epoch()\n            self.good_since = time.monotonic()",
        "            self.good_since = time.monotonic()",
        "a worker does not know that others may have taken it for dead",
    ),
    (
        HEARTBEAT,
        "            self.good_since = time.monotonic() + self.interval",
        "            pass",
        "a failed beat is no gap",
    ),
    (
        HEARTBEAT,
        "living, now = rows.filter(stopped_at=None), DbNow()",
        "living, now = rows.all(), DbNow()",
        "a worker that was taken for dead beats on",
    ),
    (
        REAPER,
        "before[uuid][0] == beat else",
        "True else",
        "a worker that beats is called dead",
    ),
    (REAPER, "if silent and judge():", "if silent:", "anybody judges silent workers"),
    (
        REAPER,
        "if not found or not judge():",
        "if not found:",
        "anybody judges overdue jobs",
    ),
    (
        REAPER,
        "if locked or (",
        "if (",
        "a worker is signed off while its jobs are locked",
        {"database": "postgresql"},
    ),
    (REAPER, "while reaped := reap.reap_owner", "if reaped := reap.reap_owner", "500 jobs are all"),
]
