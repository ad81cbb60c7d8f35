"""Mutants of the worker that no test noticed once."""

from tests.mutants.mutant import noticed_by

FINISHER, CLAIMER, CONSUMER = "worker/finisher.py", "worker/claimer.py", "worker/consumer.py"
CHILDREN, SUPERVISOR = "worker/children.py", "worker/supervisor.py"
CHILD = "worker/child.py"

OUTCOMES = [
    (
        FINISHER,
        "HOPELESS_AFTER = 6",
        "HOPELESS_AFTER = 0",
        "an outcome is dropped at the first error",
    ),
    (FINISHER, "HOPELESS_AFTER = 6", "HOPELESS_AFTER = 4", "an outcome is dropped too soon"),
    (
        FINISHER,
        "HOPELESS_AFTER = 6",
        "HOPELESS_AFTER = 10**9",
        "an outcome that is refused is never given up",
    ),
    (
        FINISHER,
        "            if hopeless:\n                return",
        "            return",
        "an outcome that is written at once is dropped at the first error",
    ),
    (
        FINISHER,
        "            if hopeless:\n                return\n",
        "",
        "a runner is held for ever by an outcome that is refused",
    ),
    (
        FINISHER,
        "OUTCOME_WAIT_SECONDS = 0.1",
        "OUTCOME_WAIT_SECONDS = 5.0",
        "an outcome may wait for 5 s",
    ),
    (
        FINISHER,
        "        if incoming and not collected:\n",
        "        if incoming:\n",
        "each outcome makes the others wait longer",
    ),
    (
        FINISHER,
        "elif len(self._to_write) >= self.batch:",
        "elif False:",
        "a full batch of outcomes waits",
    ),
    (
        FINISHER,
        "elif idle or waited >= OUTCOME_WAIT_SECONDS:",
        "elif waited >= OUTCOME_WAIT_SECONDS:",
        "the last outcome waits for others",
    ),
    (
        FINISHER,
        "if waiting == 1 or waiting == self.batch:",
        "if waiting == self.batch:",
        "the first outcome wakes nobody",
    ),
    (
        FINISHER,
        "if waiting == 1 or waiting == self.batch:",
        "if waiting == 1:",
        "a full batch of outcomes wakes nobody",
    ),
    (
        FINISHER,
        "return self.pending if self.backoff.failures else len(self._locked)",
        "return len(self._locked)",
        "nobody sees that outcomes cannot be written",
    ),
    (
        "worker/write_outcomes.py",
        "        error.__traceback__ = recorded(error).__traceback__ = None",
        "        pass",
        "a failed job's local variables live on with its error",
    ),
]
CLAIMS = [
    (
        CONSUMER,
        "self.finisher.backoff.failures > 0",
        "False",
        "jobs are claimed while outcomes cannot be written",
    ),
    (
        CLAIMER,
        "elif self.hold_claims or self.left == 0",
        "elif self.left == 0",
        "the claimer claims on while it is to hold",
    ),
    (
        "worker/claimers.py",
        "claimer.hold_claims = hold_claims",
        "claimer.hold_claims |= hold_claims",
        "nothing is claimed after outcomes could not be written once",
    ),
    (
        CONSUMER,
        "        self.shared.stuck = self.finisher.stuck\n",
        "",
        "the supervisor is not told of outcomes that cannot be written",
    ),
    (
        CLAIMER,
        "if self.buffer.under_way or self.unwritten() or self.suspects",
        "if self.buffer.under_way or self.suspects",
        "a worker that stops when nothing is ready does not wait for outcomes",
    ),
]
ENDS_OF_CHILDREN = [
    (
        CHILD,
        "return self.exit_status is ExitStatus.NONE and not self.child.is_being_killed",
        "return self.exit_status is ExitStatus.NONE",
        "a child that was killed on purpose has crashed",
    ),
    (
        CHILD,
        "return self.exit_status is ExitStatus.NONE and not self.child.is_being_killed",
        "return self.code != 0 and not self.child.is_being_killed",
        "a child that leaves without a word has not crashed",
    ),
    (CHILDREN, "        if exited.is_crash:\n", "        if False:\n", "crashes cost no pause"),
    (
        CHILDREN,
        "self._young_deaths = self._young_deaths + 1 if young else 0",
        "self._young_deaths += 1",
        "the death of an old child costs a pause",
    ),
    (
        CHILDREN,
        "0.1 * 2.0 ** (self._young_deaths - FREE_DEATHS)",
        "0.2",
        "children that die young come back as soon as ever",
    ),
    (
        CHILDREN,
        "if self._to_replace and all(child.surplus for child in leaving):",
        "if self._to_replace:",
        "HUP asks the next child before the last one has left",
    ),
    (
        CHILDREN,
        "        if self._to_replace and all(child.surplus for child in leaving):",
        "        while self._to_replace:",
        "HUP asks all children at once",
    ),
    (
        CHILDREN,
        "        self._to_replace = [one for one in self._to_replace if one.pid in self.living]\n",
        "",
        "a child that has died is asked to leave",
    ),
    (
        CHILDREN,
        "        has_successor = child.leaving and child.share is None",
        "        has_successor = False",
        "a child that was replaced is followed by two",
    ),
    (
        CHILDREN,
        "            if child.share is None:\n                self._want_successor(child)",
        "            self._want_successor(child)",
        "a child is followed before it is known how many jobs are left",
    ),
    (
        CHILDREN,
        "rest = None if child.share is None else max(0, child.share - done)",
        "rest = child.share",
        "a child that is followed may have run all of its jobs again",
    ),
]
MEMORY = [
    (
        SUPERVISOR,
        "[os.getpid(), *self.children.living]",
        "[os.getpid()]",
        "the memory of children is not counted",
    ),
    (
        SUPERVISOR,
        "[os.getpid(), *self.children.living]",
        "self.children.living",
        "the memory of the supervisor is not counted",
    ),
    (
        SUPERVISOR,
        "[os.getpid(), *self.children.living]",
        "[os.getpid(), *[*self.children.living][:1]]",
        "the memory of one child is counted",
    ),
    (
        "worker/options.py",
        "if most is not None and memory > most * 1024 * 1024:",
        "if most is not None and memory > most * 1024:",
        "--max-memory is in KB",
    ),
]
DEATHS = [
    (
        "worker/channel.py",
        "            started = []\n        elif",
        "            pass\n        elif",
        "what we have stopped by force is charged with a crash",
    ),
    (
        "worker/channel.py",
        "started, waited = exited.started, []",
        "started, waited = [], []",
        "a crash is charged to nobody",
    ),
    (
        "worker/channel.py",
        "for jobs in (started, child.overdue, waited)]",
        "for jobs in (started, [], waited)]",
        "a job that was over its time has not failed",
    ),
    (
        "worker/agent.py",
        "                pause = pause or",
        "                self.waiting.remove(abandoned)\n                pause = pause or",
        "a death is forgotten while the database is locked",
    ),
]
SIGNALS = [
    (
        "worker/signalling.py",
        "hangup_stops = os.isatty(0)",
        "hangup_stops = False",
        "a worker outlives its terminal",
    ),
]

MUTANTS = [
    *noticed_by("worker/finisher", OUTCOMES),
    *noticed_by("worker/holding_claims", CLAIMS),
    *noticed_by("worker/replacing_children", ENDS_OF_CHILDREN),
    *noticed_by("worker/recovery", DEATHS),
    *noticed_by("worker/memory", MEMORY),
    *noticed_by("worker/hangup", SIGNALS),
]
