"""Children for suspects: forked when some wait, and gone when none is left."""

import logging
import time
from collections import Counter
from itertools import product

from .child import Child, ExitedChild
from .children import FORK_RETRY_SECONDS, Children, Group, TellOfBeats
from .options import Options
from .session import close_left_behind
from .shared_memory import SACRIFICIAL, Role

logger = logging.getLogger("django_dbqueue")

CHILDREN_MAX = 4  # of one role at a time, and of one database
IDLE_DEATH_SECONDS = 1.0  # until another fork, after one that died with nothing in hand


class Sacrifice:
    """Keeps as many sacrificial children as the suspects need that ordinary ones have claimed."""

    def __init__(self, children: Children, options: Options) -> None:
        self.children = children
        threads, processes = options.threads, options.process_range.most
        # By role: how many at a time, and how many jobs each of them runs at once.
        self._most = {
            Role.SHARED: min(CHILDREN_MAX, processes),
            Role.ALONE: min(CHILDREN_MAX, threads * processes),
        }
        self._room = {Role.SHARED: threads, Role.ALONE: 1}
        # Suspects that were handed over since the last child was forked for them; of each database
        # that has children of its own, so that they wait for no other one.
        self.waiting = dict.fromkeys(product(children.groups, SACRIFICIAL), 0)
        self._next_fork = 0.0
        self._left = False
        self._max_jobs = options.max_jobs

    def fill(self, tell_of_beats: TellOfBeats) -> None:
        """Fork what is missing."""
        living = list(self.children.living.values())
        for child in living:
            for role in SACRIFICIAL:
                so_far = child.shared.handed_over(role)
                new = so_far - child.handed_over.get(role, 0)
                self.waiting[self._group(child), role] += new
                child.handed_over[role] = so_far
        if time.monotonic() < self._next_fork:
            return
        there = Counter((self._group(child), child.role) for child in living)
        for (group, role), waiting in self.waiting.items():
            wanted = -(-waiting // self._room[role])
            missing = min(wanted, self._most[role] - there[group, role])
            if missing <= 0:
                continue
            close_left_behind()
            aliases = self.children.begun if group is None else [group]
            try:
                for _ in range(missing):
                    self.children.fork(tell_of_beats, None, aliases, role)
            except OSError as error:
                logger.error("no sacrificial child can be started: %s", error)  # noqa: TRY400
                self._next_fork = time.monotonic() + FORK_RETRY_SECONDS
            else:
                # They look for all there are, until none is left.
                self.waiting[group, role] = 0

    def _group(self, child: Child) -> Group:
        return self.children.group_of(child.shared.aliases[0])

    def ended(self, exited: ExitedChild) -> None:
        """A child has. Those who wait for one that was sacrificial need another one."""
        role = exited.child.role
        self._left = self._left or exited.is_crash or role is not Role.ORDINARY
        if exited.is_crash and role is not Role.ORDINARY:
            self.waiting[self._group(exited.child), role] += 1
            if not exited.started:
                self._next_fork = time.monotonic() + IDLE_DEATH_SECONDS

    def may_be_more(self, recovered: bool) -> bool:
        """Whether jobs may be ready although all ordinary children have left: what died with one,
        or was enqueued by a suspect. One of them comes back to look, once all is ``recovered``."""
        if not self._left or self.children.shares:
            return False
        if recovered:
            self._left = False
            rest = None if self._max_jobs is None else self._max_jobs - self.children.jobs
            if rest is None or rest > 0:
                self.children.come_back(rest)
        return True
