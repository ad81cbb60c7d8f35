"""The supervisor: single-threaded, runs no user code, beats for its children and relieves them."""

import gc
import logging
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..guard import guarded
from .agent import Assignment, SignOff, run_agent
from .agents import BEAT_WITHIN, AgentHandle, Agents
from .channel import Channel
from .children import Children, Share
from .consumer import run_child
from .health import HealthCheck, notify
from .job_log import log_event
from .memory import resident
from .options import Options
from .recovery import AbandonedClaims
from .sacrifice import Sacrifice
from .session import close_before_fork
from .shared_memory import Running, SharedMemory
from .signalling import Signals
from .stop_reasons import ENOUGH, REQUESTED, Limits, StopReason
from .throughput import ThroughputCounter

logger = logging.getLogger("django_dbqueue")

LOOK_EVERY = 0.5  # seconds between looks for jobs over their time to run
LOOK_SOON = 0.1  # while a child is about to be killed
SIGN_OFF_WITHIN = 1.0  # seconds, once what runs was stopped at once
STUCK = "{} outcomes cannot be recorded: they are kept, and written once the database takes them"


class Supervisor:
    """Keeps children at work until it is told to stop; ``run`` returns the exit code.

    It never waits for a database: its agents do.
    """

    def __init__(
        self,
        options: Options,
        signals: Signals,
        *,
        serves: Mapping[str, Sequence[str]] | None = None,
        shares: list[Share] | None = None,
    ) -> None:
        """``serves``, by database alias, and the children's ``shares``: as the options say, unless
        they are given."""
        self.options = options
        self.uuid = uuid.uuid4().hex
        self.signals = signals
        self.wakeup = signals.wakeup
        self.limits = Limits(options)
        self.health_check = HealthCheck(options.health_file)
        self.serves = options.serves() if serves is None else serves
        patience = BEAT_WITHIN * options.worker_timeout
        handles = [
            AgentHandle(alias, options.beat_interval, patience) for alias in sorted(self.serves)
        ]
        self.agents = Agents(handles, self._agent)
        self.children = Children(
            self.limits.shares() * max(1, len(options.apart)) if shares is None else shares,
            options.threads,
            self.uuid,
            self._child,
            self.serves,
            options.apart,
        )
        self.sacrifice = Sacrifice(self.children, options)
        self.throughput = ThroughputCounter()
        self.stop_reason: StopReason | None = None
        self.stopping_since = 0.0
        self.forced_at: float | None = None
        self._is_leaving = False

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
        while not self._is_over():
            wait = self._turn()
            if not self._is_over():
                self.wakeup.wait(wait, self.agents.descriptors())
        return self._end(self.stop_reason or StopReason("nothing is ready"))

    def _turn(self) -> float:
        """Everything once that is due; seconds until the next thing is. What goes wrong in one step
        holds up no other."""
        steps: list[Callable[[], float | None]] = [
            *(self.health_check.turn, self.agents.turn, self._heed_signals, self._recover_children),
            *(self._beat, self._fill, self._stop_the_overdue, self._leave_if_nothing_is_left),
        ]
        wait = min([guarded(step) for step in steps])
        return min(wait, self.agents.wait(), max(0.0, self._grace_left()))

    def _nothing_is_left(self) -> bool:
        """Neither children, nor a reason to have some."""
        if self.children.living:
            return False
        if self.stop_reason is None and self.sacrifice.may_be_more(self.agents.have_recovered):
            return False
        return self.stop_reason is not None or (
            self.children.spawned > 0 and not self.children.shares
        )

    def _leave_if_nothing_is_left(self) -> None:
        """Let the agents sign off, once what the children held is given back."""
        if self._is_leaving or not self._nothing_is_left():
            return
        self._is_leaving = True
        self.stop_reason = self.stop_reason or self._all_left()
        self.stopping_since = self.stopping_since or time.monotonic()
        self.agents.tell(SignOff(self.stop_reason.reason))

    def _is_over(self) -> bool:
        if not self._is_leaving:
            return False
        if self.agents.have_signed_off:
            return True
        since = None if self.forced_at is None else max(self.forced_at, self.agents.recovered_at)
        return since is not None and time.monotonic() >= since + SIGN_OFF_WITHIN

    def _end(self, stop_reason: StopReason) -> int:
        """The exit code."""
        self.health_check.close()
        if not self.agents.have_signed_off:
            logger.warning("could not sign off; the row will be reaped")
            self.agents.kill()
        message = "worker %s has stopped (%s) after %d jobs"
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
            self._pause(paused)
        if self.agents.asks("stop_requested"):
            self.stop(REQUESTED)
        if self._grace_left() <= 0:
            self._force()

    def stop(self, stop_reason: StopReason) -> None:
        """Let the children finish what they have in hand, and start nothing new."""
        if self.stop_reason is not None:
            return
        self.stop_reason = stop_reason
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
            return LOOK_EVERY
        if self.signals.stops > 1:
            return 0.0
        return self.stopping_since + self.options.shutdown_timeout - time.monotonic()

    def _pause(self, paused: bool) -> None:
        if not paused:
            self._say("worker.resumed", "worker %s goes on")
        elif self.signals.paused:
            self._say("worker.paused", "worker %s claims nothing until SIGCONT (SIGUSR2)")
        else:
            self._say("worker.paused", "worker %s claims nothing: asked to drain, in its row")
        self.children.pause(paused)
        self.agents.beat_now()

    def _force(self) -> None:
        self.forced_at = time.monotonic()
        for child in self.children.living.values():
            logger.warning("child %d is stopped at once; what it runs runs again", child.pid)
            child.kill_soon()

    def _all_left(self) -> StopReason:
        """The children have left by themselves."""
        most = self.options.max_jobs
        if most is not None and self.children.jobs >= most:
            return StopReason(f"--max-jobs: {most} were run", ENOUGH)
        return StopReason("nothing is ready")

    # Heartbeat

    def _beat(self) -> None:
        due = [handle for handle in self.agents if handle.is_due]
        if due:
            memory = self._memory()
            if stop_reason := self.limits.reached(memory):
                self.stop(stop_reason)
            state = self._state(memory)
            for handle in due:
                handle.ask(state)
        for child in self.children.living.values():
            self._tell_of_beats(child.shared)

    def _tell_of_beats(self, shared: SharedMemory) -> None:
        for handle in self.agents:
            alias, last = handle.alias, handle.last
            if alias in shared.aliases and last and last.at > shared.beaten_at(alias):
                shared.beat(alias, last.at, last.epoch)

    def _state(self, memory: int) -> dict[str, Any]:
        """The columns of our row."""
        return {
            "running": {
                str(child.pid): [_shown(job) for job in child.shared.running()]
                for child in self.children.living.values()
            },
            "memory": memory,
            "jobs_per_minute": self.throughput.rate(self.children.jobs),
            "trouble": self._trouble(),
            "paused": self.children.paused,
            "stop_reason": self.stop_reason.reason if self.stop_reason else "",
        }

    def _trouble(self) -> str:
        stuck = sum(child.shared.stuck for child in self.children.living.values())
        return STUCK.format(stuck) if stuck else ""

    def _memory(self) -> int:
        return resident(os.getpid()) + sum(c.memory() for c in self.children.living.values())

    # Children

    def _fill(self) -> float:
        """Fork missing children; seconds until that is due again."""
        if self.stop_reason is not None or not self.agents.have_begun:
            return LOOK_EVERY
        self.children.replace_next()
        self.sacrifice.fill(self._tell_of_beats)
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
            overdue = [job for job in child.shared.running() if job.deadline < now]
            if overdue and not child.is_being_killed:
                for job in overdue:
                    logger.warning("%s %s is over its time to run: stopped", job.table, job.key)
                child.kill_soon(overdue)
        return LOOK_SOON if self.children.kill_due() else LOOK_EVERY

    # What is forked

    def _agent(self, handle: AgentHandle, channel: Channel) -> int:
        """The life of an agent."""
        self.agents.let_go()
        self.children.let_go()
        serves = tuple(self.serves[handle.alias])
        assignment = Assignment(self.uuid, os.getppid(), handle.alias, serves, handle.last)
        return run_agent(self.options, assignment, channel)

    def _child(self, *given: Any) -> int:
        """The life of a child."""
        self.agents.let_go()
        return run_child(self.options, *given)

    def _say(self, event: str, message: str, *args: object) -> None:
        name = self.uuid[:8]
        log_event(logging.INFO, event, message, name, *args, worker=name)


def _shown(job: Running) -> dict[str, Any]:
    seconds = max(0.0, time.monotonic() - job.started_at)
    return {"job": f"{job.table} {job.key}", "seconds": round(seconds, 1)}
