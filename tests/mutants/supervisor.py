"""Mutants of a supervisor: its beats, its children, what it gives back, and why it stops."""

SUPERVISOR, CHILDREN = "worker/supervisor.py", "worker/children.py"
AGENT, AGENTS, BEATS = "worker/agent.py", "worker/agents.py", "worker/heartbeat.py"
OPTIONS = "worker/options.py"

MUTANTS = [
    (
        SUPERVISOR,
        "        if self.signals.stops > 1:\n            return 0.0",
        "        if False:\n            return 0.0",
        "a second signal does not stop at once",
    ),
    (
        SUPERVISOR,
        "self.stopping_since + self.options.shutdown_timeout - time.monotonic()",
        "self.stopping_since + 3600 - time.monotonic()",
        "--shutdown-timeout is not heeded",
    ),
    (
        AGENT,
        "if self.sign_off is not None and not self.recovery.waiting:",
        "if self.stop_reason is not None:",
        "a worker signs off though claims of its dead children are left: nobody misses them",
    ),
    (
        SUPERVISOR,
        "has_begun=self.agents.has_begun,",
        "",
        "a child claims before anybody knows of its worker",
    ),
    (
        AGENT,
        "{one.model: table_of for one in all_served(alias)} | served",
        "served",
        "a worker reaps only the tables that it serves",
    ),
    (
        AGENT,
        "{one.model: table_of for one",
        "{one.model: options.table for one",
        "what a worker was told holds for tables that it does not serve",
    ),
    (
        AGENT,
        "judge=self.heartbeat.may_judge",
        "judge=lambda: True",
        "a supervisor judges others right after an outage",
    ),
    (
        CHILDREN,
        "            self.jobs_before += child.shared.jobs\n",
        "",
        "what dead children have run is not counted",
    ),
    (
        CHILDREN,
        "if exited.exit_status is ExitStatus.EMPTY:",
        "if False:",
        "a child that left since nothing was ready is replaced",
    ),
    (
        CHILDREN,
        'prefix = f"{self.uuid}.{mark}{self.spawned + 1}-"',
        'prefix = f"{self.uuid}.{mark}{self.spawned + 1}"',
        "the exited of the first child takes the jobs of the tenth",
    ),
    (
        CHILDREN,
        "        shared.paused = self.paused\n",
        "",
        "a child that is forked while its worker is paused claims",
    ),
    (
        CHILDREN,
        "pause = min(most, 0.1 * 2.0 ** (self._young_deaths - FREE_DEATHS))",
        "pause = 0.0",
        "children that die young are replaced at once, for ever",
    ),
    (
        CHILDREN,
        "max(0, child.share - done)",
        "child.share",
        "the successor of a dead child may run as many jobs as both",
    ),
    (
        CHILDREN,
        "            self.let_go()\n            stacks.record()",
        "            stacks.record()",
        "a child does not notice that its supervisor is gone, as its brother keeps their pipe",
    ),
    (
        AGENT,
        "started = abandoned.started.get(table.place, {})",
        "started = {k: t for _ in abandoned.started.values() for k, t in _.items()}",
        "a crash is charged to a job of another table that has the same key",
    ),
    (
        AGENT,
        "while reaped := reap.reap_owner",
        "if reaped := reap.reap_owner",
        "of many jobs of a dead child only the first come back",
    ),
    (
        AGENTS,
        "for message in [*self.abandoned.values(), self.sign_off]:",
        "for message in [self.sign_off]:",
        "what a stuck agent was told about exited children is forgotten",
    ),
    (
        AGENTS,
        "time.monotonic() - self._asked_at > self.answer_seconds_max:",
        "time.monotonic() - self._asked_at > 3600:",
        "a stuck agent is never replaced",
    ),
    (
        AGENT,
        "        if self.channel.is_closed:\n",
        "        if False:\n",
        "an agent outlives its supervisor",
    ),
    (
        SUPERVISOR,
        "since + SIGN_OFF_SECONDS_MAX",
        "since + 3600",
        "a worker that is told to stop waits for its database",
    ),
    (
        OPTIONS,
        "EXIT_LIMIT_REACHED = 12",
        "EXIT_LIMIT_REACHED = 1",
        "a worker that has reached a limit seems to have failed",
    ),
    (
        OPTIONS,
        "memory > most * 1024 * 1024",
        "memory > most * 1024",
        "--max-memory is in kilobytes",
    ),
    (
        OPTIONS,
        "parts = [most // processes + (n < most % processes) for n in range(processes)]",
        "parts = [most // processes for n in range(processes)]",
        "--max-jobs is rounded down to a multiple of the processes",
    ),
    (
        BEATS,
        "            self.last = replace(self.last, drain_requested=False)\n        elif",
        "            pass\n        elif",
        "a worker that was drained never goes on",
    ),
    (
        BEATS,
        "worker.serves, worker.name = list(self.serves), self.name",
        "worker.serves, worker.name = [], self.name",
        "nobody knows what a worker serves",
    ),
]
