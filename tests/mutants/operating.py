"""Mutants of what operators do from the command line, and of jobs that need newer code."""

ACTING, CHOICE, PRUNING = "operate/acting.py", "operate/choice.py", "operate/pruning.py"
PAUSING, THRESHOLDS = "operate/pausing.py", "monitor/thresholds.py"
ACTS, CHOOSING = "management/acts.py", "management/choosing.py"
CONFIRMING, REPORTING = "management/confirming.py", "management/reporting.py"
WORKER_REQUESTS, AGENTS = "monitor/worker_requests.py", "worker/agents.py"
CLAIM, VERSIONS = "lifecycle/claim.py", "lifecycle/versions.py"

MUTANTS = [
    (ACTING, ".as_of_now()", "", "jobs that are claimed again are released again, without end"),
    (ACTING, "if not self.is_dry:", "if True:", "a dry run changes what it counts"),
    (ACTING, "self.limit - self.taken", "len(rows)", "a limit is not heeded"),
    (
        CHOICE,
        '"finished_at" if status in ENDED else "created_at"',
        '"created_at"',
        "the age of a done job counts from its enqueueing",
    ),
    (
        CHOICE,
        'self._of_age(rows, "failed_at")',
        'self._of_age(rows, "created_at")',
        "the age of a failed job counts from its enqueueing",
    ),
    (
        CHOICE,
        "self.error.casefold() in job.last_error.casefold()",
        "self.error in job.last_error",
        "an error is found in its own capitals alone",
    ),
    (
        CHOICE,
        "rows = rows.filter(in_queues(served.model, [served.queue]))",
        "pass",
        "TABLE:QUEUE means all queues of the table",
    ),
    (
        CONFIRMING,
        "if not is_terminal(sys.stdin):",
        "if False:",
        "without a terminal it waits for an answer",
    ),
    (
        CONFIRMING,
        'not in {"y", "yes"}',
        'in {"n", "no"}',
        "an empty answer counts as a yes",
    ),
    (
        ACTS,
        "if report.is_dry or report.changed >= wanted:",
        "if True:",
        "that an id was not changed is told to nobody",
    ),
    (
        CHOOSING,
        'if not (options["tables"] or options["all"] or not choice.is_empty):',
        "if False:",
        "a verb without a choice is done to everything",
    ),
    (
        REPORTING,
        'self.problem, code = _("interrupted: the rest is as it was"), INTERRUPTED',
        "raise",
        "nobody is told what was done before an interruption",
    ),
    (
        PRUNING,
        "Choice(older_than=seconds)",
        "Choice()",
        "what has just failed is pruned",
    ),
    (
        PAUSING,
        "_manager(served).resume(served.queue or ALL)",
        '_manager(served).resume(served.queue or "default")',
        "of a whole table one queue is resumed",
    ),
    (
        THRESHOLDS,
        "if one.waiting >= limits.waiting:",
        "if one.waiting > limits.waiting:",
        "a queue that is as long as the limit is no alert",
    ),
    (
        THRESHOLDS,
        "max(DUE_MAX, limits.waiting * len(queues))",
        "limits.waiting * len(queues)",
        "due jobs of other queues hide those of the one that is watched",
    ),
    (
        THRESHOLDS,
        " + its_due.number",
        "",
        "jobs that are due and that nobody promotes are not seen",
    ),
    (
        THRESHOLDS,
        "is_enough = known.is_exact or (known.is_at_least and known.number >= limit)",
        "is_enough = True",
        "a limit above a thousand is never reached",
    ),
    (
        AGENTS,
        'return RESTART_REQUESTED if self.asks("restart_requested") else REQUESTED',
        "return REQUESTED",
        "a worker that is asked to restart stays stopped",
        {"tests": ("tests/management/test_restart.py",)},
    ),
    (
        WORKER_REQUESTS,
        '"stop": {"stop_requested_at": DbNow(), "restart_requested": False}',
        '"stop": {"stop_requested_at": DbNow()}',
        "a worker that is asked to stop, after a restart, is started again",
    ),
    (
        VERSIONS,
        "if needs(job) > version",
        "if needs(job) >= version",
        "a job for this very code waits",
    ),
    (
        VERSIONS,
        "SHARE * _age(table, keys)",
        "0",
        "jobs for newer code are claimed every ten seconds, however many",
    ),
    (
        CLAIM,
        "for _ in range(versions.ROUNDS_MAX):",
        "for _ in range(1):",
        "jobs for newer code keep waiting what is behind them",
        {"tests": ("tests/lifecycle/test_versions.py",)},
    ),
]
