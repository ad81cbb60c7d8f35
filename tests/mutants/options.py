"""Mutants of what a worker is told: its options and the settings."""

from tests.mutants.mutant import noticed_by

QUEUE_POLLER, SERVED, COMMAND = (
    "worker/queue_poller.py",
    "worker/served.py",
    "management/commands/runworker.py",
)

TOLD = [
    (
        QUEUE_POLLER,
        "min(self.pause * 1.25, options.sleep)",
        "self.pause * 1.25",
        "--sleep bounds nothing",
    ),
    (
        QUEUE_POLLER,
        "min(self.pause * 1.25, options.sleep)",
        "min(self.pause * 1.25, 0.5)",
        "--sleep is ignored",
    ),
    *(
        (COMMAND, f'{name}=chosen(given, "{name}")', f'{name}=conf["{name.upper()}"]', why)
        for name, why in (
            ("processes", "--processes is ignored"),
            ("threads", "--threads is ignored"),
            ("batch_size", "--batch-size is ignored"),
            ("sleep", "--sleep does not reach the worker"),
            ("shutdown_timeout", "--shutdown-timeout is ignored"),
        )
    ),
    *(
        (COMMAND, f'{name}=given["{name}"]', f"{name}=None", why)
        for name, why in (
            ("stop_when_empty", "--stop-when-empty is ignored"),
            ("max_jobs", "--max-jobs is ignored"),
            ("max_time", "--max-time is ignored"),
            ("max_memory", "--max-memory is ignored"),
            ("tries", "--tries is ignored"),
            ("backoff", "--backoff is ignored"),
        )
    ),
    (
        COMMAND,
        'health_file=given["health_file"] or None',
        "health_file=None",
        "--health-file is ignored",
    ),
    (
        COMMAND,
        'batch_grows=given["batch_size"] is None',
        "batch_grows=True",
        "--batch-size is where batches begin to grow",
    ),
    (
        COMMAND,
        'type=pauses, dest="backoff"',
        'type=pauses, dest="delay"',
        "--delay is ignored",
    ),
    (
        COMMAND,
        "return conf[name.upper()] if given[name] is None else given[name]",
        "return given[name] or conf[name.upper()]",
        "an option of 0 is ignored",
    ),
    (COMMAND, "            **timing(),\n", "", "the settings of the clockwork are ignored"),
    (
        SERVED,
        "if other.queue and other.model is one.model]",
        "if other.queue]",
        "--except A:q leaves out B:q, too",
    ),
    (
        SERVED,
        "if other.queue and other.model is one.model]",
        "if False]",
        "--except is ignored",
    ),
    (
        SERVED,
        "return self.queue in {None, queue} and queue not in self.left_out",
        "return queue not in self.left_out",
        "all queues of a table are served",
    ),
]

MUTANTS = noticed_by("worker/options", TOLD)
