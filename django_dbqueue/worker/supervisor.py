"""The supervisor: single-threaded, runs no user code, beats for its children and replaces them."""

import gc
import logging
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..guard import guarded
from .agent import run_agent
from .agents import AgentHandle, Agents
from .channel import AbandonedClaims, Channel, SignOff
from .child import Share
from .children import Children, resident
from .consumer import run_child
from .health import HealthCheck, ThroughputCounter, notify
from .heartbeat import Heartbeat
from .job_log import log_of_worker
from .options import (
    EXIT_LIMIT_REACHED,
    NOTHING_READY,
    PARENT_GONE,
    Limits,
    Options,
    StopReason,
)
from .probe import Probe
from .sacrifice import Sacrifice
from .scaling import Scaling
from .session import close_before_fork
from .shared_memory import SharedMemory
from .signalling import Signals

logger = logging.getLogger("django_dbqueue")

CHECK_SECONDS = 0.5  # between looks for jobs over their time to run
KILL_CHECK_SECONDS = 0.1  # the same, while a child is about to be killed
SIGN_OFF_SECONDS_MAX = 1.0  # once what runs was stopped at once
CANCEL_SECONDS = 1.0  # for cancelled coroutines to end and be given back
STUCK = "{} outcomes cannot be recorded: they are kept, and written once the database takes them"


class Supervisor:
    """Keeps children at work until it is told to stop, and never waits for a database."""

    def __init__(
        self,
        options: Options,
        signals: Signals,
        *,
        serves: Mapping[str, Sequence[str]] | None = None,
        shares: list[Share] | None = None,
        probe: Probe | None = None,
    ) -> None:
        """``serves``, by database alias, and the children's ``shares``: as the options say, unless
        they are given."""
        self.options = options
        self.uuid = uuid.uuid4().hex
        self.signals = signals
        self.wakeup = signals.wakeup
        self.limits = Limits(options)
        self.health_check = HealthCheck(options.health_file)
        self.probe = probe or Probe(options)
        self.memory = 0
        self.serves = options.serves() if serves is None else serves
        timing = options.beat_interval, options.worker_timeout
        handles = [AgentHandle(alias, *timing) for alias in sorted(self.serves)]
        self.agents = Agents(handles, self._agent)
        self.children = Children(
            self.limits.shares() * max(1, len(options.apart)) if shares is None else shares,
            *(options.threads, self.uuid, self._child, self.serves),
            *(options.apart, options.coroutines, self.limits.reserve()),
            is_changing=options.grows or options.balances,
            has_begun=self.agents.has_begun,
        )
        self.scaling = Scaling(options, self.children, self.agents, self.uuid[:8])
        self.sacrifice = Sacrifice(self.children, options)
        self.throughput = ThroughputCounter()
        self.stop_reason: StopReason | None = None
        self.stopping_since = 0.0
        self.forced_at: float | None = None
        self._is_leaving = False
        self._has_cancelled = False
        # The last part of the grace.
        self._cancel_seconds = min(CANCEL_SECONDS, options.shutdown_timeout / 4)

    def run(self) -> int:
        serves = ", ".join(str(served) for served in self.options.served)
        self._say("worker.started", "worker %s starts: pid %d, %s", os.getpid(), serves)
        if self.options.max_memory is not None and not self._memory():
            logger.warning(
                "--max-memory does nothing: this system does not tell what memory we use"
            )
        notify("READY=1")
        # What is forked from here on shares all of this as long as nobody touches it, but no
        # connection: two processes that read from one get each other's answers.
        close_before_fork()
        gc.freeze()
        # All that may be due; what goes wrong in one step holds up no other.
        steps: list[Callable[[], float | None]] = [
            *(self.health_check.turn, self.agents.turn, self._heed_signals, self._recover_children),
            *(self.scaling.turn, self._beat, self._fill, self._stop_the_overdue),
            self._leave_when_done,
            lambda: self.probe.turn(self),
        ]
        while not self._is_over():
            wait = min([guarded(step) for step in steps])
            wait = min(wait, self.agents.wait(), max(0.0, self._until_the_end()))
            if not self._is_over():
                self.wakeup.wait(wait, self.agents.descriptors())
        self.health_check.close()
        if not self.agents.have_signed_off:
            logger.warning("could not sign off; the row will be reaped")
            self.agents.kill()
        stop_reason = self.stop_reason or NOTHING_READY
        message = "worker %s has stopped (%s); jobs that it ran: %d"
        self._say("worker.stopped", message, stop_reason.reason, self.children.jobs)
        return stop_reason.code

    # Signals and stopping

    def _heed_signals(self) -> None:
        if self.signals.stops:
            self.stop(StopReason(self.signals.last))
        if self.signals.replace:
            self.signals.replace = False
            logger.info("replacing the children one by one (SIGHUP)")
            self.children.replace_all()
        # systemd sends CONT after every TERM.
        paused = self.signals.paused or self.agents.asks("drain_requested")
        if self.stop_reason is None and paused != self.children.paused:
            if not paused:
                self._say("worker.resumed", "worker %s goes on")
            elif self.signals.paused:
                self._say("worker.paused", "worker %s claims nothing until SIGCONT (SIGUSR2)")
            else:
                self._say("worker.paused", "worker %s claims nothing: asked to drain, in its row")
            self.children.pause(paused)
            self.agents.beat_now()
        if requested := self.agents.stop_request:
            self.stop(requested)
        if self.options.has_lost_parent:
            self.stop(PARENT_GONE)
        self._end_what_runs()

    def _end_what_runs(self) -> None:
        """Once the grace is over; coroutines, which can be cancelled, a little earlier."""
        if not self._has_cancelled and self._until_the_end() <= 0:
            self._has_cancelled = True
            for child in self.children.living.values():
                child.cancel()
        if self._grace_left() <= 0:
            self.forced_at = time.monotonic()
            for child in self.children.living.values():
                logger.warning("child %d is stopped at once; what it runs runs again", child.pid)
                child.kill_soon()

    def stop(self, stop_reason: StopReason) -> None:
        """Let the children finish what they have in hand, and start nothing new."""
        if self.stop_reason is not None:
            return
        self.stop_reason, self.scaling.is_over = stop_reason, True
        self.stopping_since = time.monotonic()
        message = "worker %s is stopping (%s): finishing what runs, giving back the rest"
        self._say("worker.stopping", message, stop_reason.reason)
        notify("STOPPING=1")
        for child in self.children.living.values():
            child.ask_to_stop()
        self.agents.beat_now()

    def _grace_left(self) -> float:
        """Seconds until what still runs is stopped at once."""
        if self.stop_reason is None or self.forced_at is not None:
            return CHECK_SECONDS
        if self.signals.stops > 1:
            return 0.0
        return self.stopping_since + self.options.shutdown_timeout - time.monotonic()

    def _until_the_end(self) -> float:
        """Seconds until coroutines that still run are cancelled, and then until all is stopped."""
        left = self._grace_left()
        is_first = self.stop_reason is not None and not self._has_cancelled
        return left - self._cancel_seconds if is_first else left

    def _leave_when_done(self) -> None:
        """Where there are neither children nor a reason to have some, the agents sign off, once
        what the children held is given back."""
        if self._is_leaving or self.children.living:
            return
        if self.stop_reason is None:
            if self.sacrifice.may_be_more(self.agents.have_recovered):
                return
            if self.children.shares or not self.children.spawned:
                return
            most = self.options.max_jobs
            self.stop_reason = NOTHING_READY
            if most is not None and self.children.jobs >= most:
                self.stop_reason = StopReason(f"--max-jobs: {most} were run", EXIT_LIMIT_REACHED)
        self._is_leaving = True
        self.stopping_since = self.stopping_since or time.monotonic()
        self.agents.tell(SignOff(self.stop_reason.reason))

    def _is_over(self) -> bool:
        if not self._is_leaving:
            return False
        if self.agents.have_signed_off:
            return True
        since = None if self.forced_at is None else max(self.forced_at, self.agents.recovered_at)
        return since is not None and time.monotonic() >= since + SIGN_OFF_SECONDS_MAX

    # Heartbeat

    def _beat(self) -> None:
        """Have the columns of our row written where that is due, and tell the children of beats."""
        children = self.children.living.values()
        if due := [handle for handle in self.agents if handle.is_due]:
            self.memory = self._memory()
            if stop_reason := self.limits.reached(self.memory):
                self.stop(stop_reason)
            stuck = sum(child.shared.stuck for child in children)
            state = {
                "running": self.children.running(),
                "memory": self.memory,
                "jobs_per_minute": self.throughput.rate(self.children.jobs),
                "trouble": STUCK.format(stuck) if stuck else "",
                "paused": self.children.paused,
                "stop_reason": self.stop_reason.reason if self.stop_reason else "",
            }
            for handle in due:
                handle.ask(state | {"pool": self.scaling.columns(handle.alias)})
        for child in children:
            self._tell_of_beats(child.shared)

    def _tell_of_beats(self, shared: SharedMemory) -> None:
        for handle in self.agents:
            alias, last = handle.alias, handle.last
            if alias in shared.aliases and last and last.at > shared.beaten_at(alias):
                shared.beat(alias, last.at, last.epoch)

    def _memory(self) -> int:
        return sum(map(resident, [os.getpid(), *self.children.living]))

    # Children

    def _fill(self) -> float:
        """Fork missing children; seconds until that is due again."""
        if self.stop_reason is not None:
            return CHECK_SECONDS
        self.children.replace_next()
        self.sacrifice.fill(self._tell_of_beats)
        if self.options.stop_when_empty is not None and not self.agents.have_recovered:
            # A successor would find nothing, and end, before what the last one had is ready again.
            return CHECK_SECONDS
        return self.children.fill(self._tell_of_beats)

    def _recover_children(self) -> None:
        for exited in self.children.exited_children():
            self.agents.tell(AbandonedClaims.of(exited))
            self.sacrifice.ended(exited)
            exited.child.stacks.close()
            if exited.is_crash:
                logger.error("child %d died (%s)", exited.child.pid, exited.how)

    def _stop_the_overdue(self) -> float:
        """Kill a child whose job is over its time to run; nothing else stops every kind of job."""
        now = time.monotonic()
        for child in self.children.living.values():
            overdue = child.shared.overdue(now)
            if overdue and not child.is_being_killed:
                for job in overdue:
                    logger.warning("%s %s is over its time to run: stopped", job.table, job.key)
                child.kill_soon(overdue)
        return KILL_CHECK_SECONDS if self.children.kill_due() else CHECK_SECONDS

    # What is forked

    def _agent(self, handle: AgentHandle, channel: Channel) -> int:
        """The life of an agent."""
        self.agents.let_go()
        self.probe.let_go()
        self.children.let_go()
        timing = self.options.beat_interval, self.options.worker_timeout
        ours = self.uuid, handle.alias, self.serves[handle.alias], *timing
        heartbeat = Heartbeat(*ours, last=handle.last, pid=os.getppid(), name=self.options.name)
        return run_agent(self.options, heartbeat, channel)

    def _child(self, *given: Any) -> int:
        """The life of a child."""
        self.agents.let_go()
        self.probe.let_go()
        return run_child(self.options, *given)

    def _say(self, event: str, message: str, *args: object) -> None:
        log_of_worker(event, message, self.uuid, self.options.name, *args)
