"""Mutants of what a worker is told: its options and the settings."""

from tests.mutants.mutant import noticed_by

QUEUE_POLLER, SERVED, COMMAND = (
    "worker/queue_poller.py",
    "worker/served.py",
    "management/commands/runworker.py",
)
ORDER, CLAIMER, STARTUP = "worker/ordered_queues.py", "worker/claimer.py", "worker/startup.py"
QUEUE, CONFIG = "models/queue.py", "management/commands/_config.py"

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
        "management/commands/_worker_arguments.py",
        'type=pauses, dest="backoff"',
        'type=pauses, dest="delay"',
        "--delay is ignored",
    ),
    (
        COMMAND,
        "return conf.judged(name.upper()) if given[name] is None else given[name]",
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
        "if self.queue is not None and not is_among([self.queue]):",
        "if False:",
        "all queues of a table are served",
    ),
    (
        SERVED,
        "return not is_among(self.left_out)",
        "return queue not in self.left_out",
        "--except takes no pattern",
    ),
]
ORDERED = [
    (ORDER, "return min(by_rank) > 0", "return False", "nobody looks for the first queue"),
    (ORDER, "return len(by_rank) < len(self._clocks)", "return False", "no look for a missing one"),
    (
        ORDER,
        "min(LOOK_SECONDS_MAX, LOOK_SHARE * (now - began))",
        "0",
        "looks for the first queue take any time",
    ),
    (
        ORDER,
        "max(self._clocks[rank], self._now)",
        "self._clocks[rank]",
        "a queue that had nothing makes up for it",
    ),
    (ORDER, "count / self.order.weights[rank]", "count", "weights are ignored"),
    (
        ORDER,
        "poller.queues.append(name)",
        "poller.queues.appendleft(name)",
        "one of a pattern wins",
    ),
    (
        QUEUE_POLLER,
        "if self._whole_since is None:",
        "if False:",
        "a look that sees a part forgets the other queues",
    ),
    (
        QUEUE_POLLER,
        "[*self.floors.queues, *self.served.exact]",
        "[*self.floors.queues]",
        "where looks are slow a named queue is overlooked",
    ),
    (
        QUEUE_POLLER,
        "if self._last or exact == wanted:",
        "if exact == wanted:",
        "a named queue is overlooked among many",
    ),
    (
        QUEUE_POLLER,
        "self.claimed(base_of(poller.served.model, queue), len(jobs))",
        "pass",
        "nobody counts for the weights",
    ),
    (
        CLAIMER,
        "bool(options.queue_order) and options.batch_grows",
        "False",
        "a batch is fetched ahead of the first queue",
    ),
    (STARTUP, "order.rank(base_of(one[0].model, one[1]))", "0", "--once knows no order"),
    (STARTUP, "return not buckets.take(", "return not 0 * buckets.take(", "--once keeps no rate"),
]
FORCED = [
    (QUEUE, "if force:", "if False:", "--force is ignored"),
    (QUEUE, "AnyQueue(names - {ALL}) if ALL in names else names", "names", "no table is paused"),
    (STARTUP, "force=options.force", "force=False", "--once ignores --force"),
]
CALLED = [
    (
        "worker/runner.py",
        "return not self.stop.is_set() and super()",
        "return super()",
        "a thread that is woken from its rest takes one more job",
    ),
    (
        "worker/options.py",
        "time_to_run=timeout or table.policy.time_to_run,",
        "",
        "--timeout is ignored",
    ),
    (
        "worker/options.py",
        'None if getattr(model, "keeps_time_to_run", False) else self.timeout',
        "self.timeout",
        "--timeout kills children that wait for a mail server",
    ),
    (
        "worker/heartbeat.py",
        "worker.serves, worker.name = list(self.serves), self.name",
        "worker.serves = list(self.serves)",
        "no row has its worker's name",
    ),
]
SHOWN = [
    (CONFIG, "not is_given(found[dest]) and", "", "a file wins over options"),
    (
        CONFIG,
        "value is not None and value is not False and value != []",
        "bool(value)",
        "a file wins over an option that is 0",
    ),
    (COMMAND, '| {"health_file": None}', "", "--show-config makes the health file"),
]

MUTANTS = [
    *noticed_by("worker/options", TOLD),
    *noticed_by("worker/queue_order", ORDERED),
    *noticed_by("worker/pause_everything", FORCED),
    *noticed_by("worker/laravels_options", CALLED),
    *noticed_by("management/config", SHOWN),
]
