"""The machine: every call that moves a job, and what the model says of it."""

import copy
import itertools
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from django_dbqueue.exceptions import Bury, ClaimLost, Retry
from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle import archive, holder, operator, promotion, reap
from django_dbqueue.models import Queue, Worker
from tests.kit.clock import START
from tests.kit.jobs import reaper, table
from tests.machine.invariants import check_table
from tests.machine.moves import MOVES, move, picked, some
from tests.machine.oracle import CLAIMED, DELAYED, DONE, READY, Oracle, Record, Rules
from tests.queueapp.models import StagedArchived, StagedFleeting, StagedPruned
from tests.queueapp.staged import ArchivedStaged

TABLES = {
    StagedPruned: Rules(),
    StagedArchived: Rules(dedup_until="done", has_archive=True),
    StagedFleeting: Rules(retention=0),
}
NAMES = list(Record.__dataclass_fields__)
# What each verb of a person takes.
TAKES = {
    "bury": {READY, CLAIMED, DELAYED},
    "kick": {DELAYED, 4},
    "release": {CLAIMED},
    "cancel": {0, 1, 2, 3, 4},
}
QUEUES = st.sampled_from(["a", "a", "b"])
DELAYS = st.sampled_from([0, 0, 3, 40])
KEYS = st.sampled_from([None, None, "k", "l"])
SLOTS = st.integers(0, 1)
ENDS = ["fail", "die", "sleep", "end", "lose", "lose"]
LATE = st.sampled_from(["touch", "complete", "release", "fail", "expire", "bury"])
# What an owner does with a job.
VERBS = st.sampled_from(
    [
        ("touch",),
        ("complete",),
        ("release", 0),
        ("release", 3),
        ("fail", OSError("no")),
        ("fail", Retry(0)),
        ("fail", Retry(2)),
        ("fail", Bury("no")),
        ("expire",),
    ]
)


class Game(RuleBasedStateMachine):
    clock: Any = None  # the virtual one, set by the test
    tally = Counter()

    @initialize(
        model=st.sampled_from(list(TABLES)), counts=st.tuples(st.integers(2, 6), st.integers(1, 3))
    )
    def begin(self, model, counts):
        for each in [*TABLES, ArchivedStaged, Worker, Queue]:
            each._base_manager.all()._raw_delete("default")
        self.clock.now = START
        self.model, self.table = model, table(model)
        self.oracle = Oracle(TABLES[model], self.clock.now)
        self.claims = []  # every instance that a claim has ever given
        self.seen = []  # (key, status, owner) and instances, as people saw them
        self.found = [[], []]  # what each reaper found overdue
        self.failed = set()  # claims that ended with a failure
        self.numbers = itertools.count(1)
        self.workers: list[str | None] = [None, None]
        for slot in range(2):
            self.worker_starts(slot)
        for queue, count in zip("ab", counts, strict=True):
            self.enqueue_many(queue, 0, count)

    @rule(data=st.data())
    def step(self, data):
        possible = [one for one in MOVES if one.is_possible(self)]
        chosen = data.draw(st.sampled_from([one for one in possible for _ in range(one.weight)]))
        arguments = {key: data.draw(what) for key, what in chosen.strategies.items()}
        self.tally[chosen.name] += 1
        getattr(self, chosen.name)(**arguments)

    # What there is to pick from.

    @property
    def held(self):
        return [one for one in self.claims if self.oracle.holds(one.pk, one.claim_owner)]

    @property
    def stale(self):
        return [one for one in self.claims if not self.oracle.holds(one.pk, one.claim_owner)]

    @property
    def once_complete(self):
        """Done twice is done, where the row is still there to tell."""
        return CLAIMED if self.model is StagedFleeting else DONE

    @property
    def robbed(self):
        """Claims whose job another owner has."""
        taken = {k for k, row in self.oracle.live.items() if row.status == CLAIMED}
        return [one for one in self.stale if one.pk in taken]

    @property
    def ready(self):
        """Queues from which something can be claimed."""
        rows = self.oracle.live.values()
        names = {row.queue for row in rows if row.status == READY}
        return sorted(name for name in names if not self.oracle.is_paused(name))

    @property
    def keys(self):
        return sorted(self.oracle.live)

    # Producers.

    @move(
        3,
        queue=QUEUES,
        priority=st.sampled_from([1024, 1024, 0, 7]),
        delay=DELAYS,
        dedup_key=KEYS,
        expires=st.sampled_from([None, None, 2, 50]),
        time_to_run=st.sampled_from([None, None, 5, 45]),
        by_date=st.booleans(),
    )
    def enqueue(self, queue, priority, delay, dedup_key, expires, time_to_run, by_date):
        record = Record(queue, priority, dedup_key=dedup_key, time_to_run=time_to_run)
        record.expires_at = self.oracle.after(expires) if expires else None
        record.retry_at = self.oracle.after(delay) if delay else None
        columns = {n: getattr(record, n) for n in ("queue", "priority", "time_to_run")}
        when = {"retry_at": record.retry_at} if by_date else {"delay": delay}
        job, is_new = self.model.objects.enqueue(
            dedup_key=dedup_key, expires_at=record.expires_at, **columns, **when
        )
        twin = self.oracle.twin(queue, dedup_key) if dedup_key else None
        assert is_new == (twin is None)
        if is_new:
            self.oracle.enqueue(job.pk, record)
        else:
            assert job.pk == twin

    @move(2, queue=QUEUES, delay=DELAYS, count=st.integers(1, 4))
    def enqueue_many(self, queue, delay, count):
        rows = [{"queue": queue, "priority": 5 + n % 2} for n in range(count)]
        assert self.model.objects.enqueue_many(rows, delay=delay) == count
        pks = self.model.objects.order_by("-pk").values_list("pk", flat=True)[:count]
        due = self.oracle.after(delay) if delay else None
        for pk, row in zip(reversed(pks), rows, strict=True):
            self.oracle.enqueue(pk, Record(retry_at=due, **row))

    @move(verb=st.sampled_from(["complete", "release", "touch", "cancel", "none"]))
    def work_in_a_transaction_that_is_rolled_back(self, verb):
        with transaction.atomic():
            self.model.objects.enqueue(queue="a", dedup_key="k")
            self.model.objects.create(queue="b")
            if verb == "cancel":
                self.model.objects.all().cancel()
            elif verb != "none" and self.held:
                getattr(copy.copy(self.held[0]), verb)()
            transaction.set_rollback(True)

    # Workers.

    @move(slot=SLOTS)
    def worker_starts(self, slot):
        """In place of one that falls silent."""
        uuid = f"{next(self.numbers):032x}"
        label = self.model._meta.label_lower
        Worker.objects.create(uuid=uuid, host="h", pid=slot, serves=[label], beat_at=DbNow())
        self.workers[slot] = uuid
        self.oracle.beats[uuid] = self.oracle.now

    @move(2, slot=SLOTS)
    def worker_beats(self, slot):
        uuid = self.workers[slot]
        living = Worker.objects.filter(pk=uuid, stopped_at=None)
        assert living.update(beat_at=DbNow()) == (uuid in self.oracle.beats)
        if uuid in self.oracle.beats:
            self.oracle.beats[uuid] = self.oracle.now

    @move(slot=SLOTS)
    def worker_signs_off(self, slot):
        """It gives back first what it has not started."""
        uuid = self.workers[slot]
        self._reap_owner(f"{uuid}.", {})
        Worker.objects.filter(pk=uuid).sign_off("told to stop")
        self.oracle.beats.pop(uuid, None)

    @move(slot=SLOTS, queue=QUEUES)
    def claim_where_there_may_be_nothing(self, slot, queue):
        self._claim(slot, queue, 2)

    @move(6, needs="ready", slot=SLOTS, queue=picked("ready"), limit=st.integers(1, 4))
    def claim(self, slot, queue, limit):
        assert self._claim(slot, queue, limit)

    @move(
        4,
        needs="ready",
        slot=SLOTS,
        queue=picked("ready"),
        end=st.sampled_from(ENDS),
    )
    def attempt(self, slot, queue, end):
        """A claim, and at once what becomes of it, so that attempts and crashes are used up."""
        [job] = self._claim(slot, queue, 1)
        if end == "fail":
            self._fail(job, OSError("no"))
        elif end == "end":
            self._complete(job)
        elif end == "die":
            self._reap_owner(job.claim_owner, {job.pk: "WorkerLost"})
        else:
            self._move_clock(45)
            self.a_reaper_passes(may_judge=True)
            if end == "lose":
                self._claim_what_comes_back(slot, queue)

    @move(2, needs="held", slot=SLOTS)
    def a_reaper_is_slow(self, slot):
        """It finds a job overdue, which the other one ends, and which another owner has, who is
        overdue too, when it comes to its write."""
        self._move_clock(46)
        self.a_reaper_looks(slot)
        self.a_reaper_passes(may_judge=True)
        self._claim_what_comes_back(slot, "a")
        self._move_clock(46)
        self.a_reaper_ends_what_it_found(slot)

    def _claim_what_comes_back(self, slot, queue):
        self._move_clock(5)
        self.a_step_of_a_pass(promotion.promote)
        self._claim(slot, queue, 5)

    def _claim(self, slot, queue, limit):
        owner = f"{self.workers[slot]}.{next(self.numbers)}"
        jobs = self.model.objects.claim(limit, queue, owner)
        assert [job.pk for job in jobs] == self.oracle.claim(queue, limit, owner)
        for job in jobs:
            record = self.oracle.live[job.pk]
            assert (job.claim_owner, job.attempts) == (owner, record.attempts)
            assert job.has_expired == self.oracle.is_past(record.expires_at)
        self.claims += jobs
        self.tally["claimed jobs"] += len(jobs)
        return jobs

    @move(slot=SLOTS, queue=QUEUES)
    def claim_without_an_answer(self, slot, queue):
        """The worker gives back what came of it, if anything."""
        owner = f"{self.workers[slot]}.{next(self.numbers)}"
        self.model.objects.claim(2, queue, owner)
        taken = self.oracle.claim(queue, 2, owner)
        assert len(reap.give_back(self.table, owner)) == len(taken)
        for key in taken:
            self.oracle.release(key)

    def _own(self, job, call, then, kept=CLAIMED, *, is_written=False):
        """An owner's verb, on a copy, so that the claim can be used again and again."""
        job = copy.copy(job)
        answer = "written" if is_written else self.oracle.answer(job.pk, job.claim_owner, kept)
        holds = self.oracle.holds(job.pk, job.claim_owner)
        self.tally[answer if holds else f"late: {answer}"] += 1
        if answer == "lost":
            with pytest.raises(ClaimLost):
                call(job)
        else:
            call(job)
        if holds:
            then(job.pk)

    @move(9, needs="held", job=picked("held"), verb=VERBS)
    def own(self, job, verb):
        name, *arguments = verb
        getattr(self, f"_{name}")(job, *arguments)

    @move(3, needs="held", job=picked("held"), verb=VERBS)
    def own_twice(self, job, verb):
        """Once more a second later, as if no answer had come."""
        self.own(job, verb)
        self._move_clock(1)
        self.own(job, verb)

    def _touch(self, job):
        self._own(job, lambda job: job.touch(), self.oracle.touch)

    def _complete(self, job):
        self._own(job, lambda job: job.complete(), self.oracle.complete, self.once_complete)

    def _release(self, job, delay):
        self._own(job, lambda job: job.release(delay), lambda key: self.oracle.release(key, delay))

    def _fail(self, job, error):
        name, delay = type(error).__name__, getattr(error, "delay", None)
        claim = job.pk, job.claim_owner
        is_written = claim in self.failed  # its entry in the row tells
        self.failed.add(claim)
        then = lambda key: self.oracle.fail(key, name, delay)  # noqa: E731
        self._own(job, lambda job: job.fail(error), then, is_written=is_written)

    def _expire(self, job):
        expire = lambda job: holder.expire(self.table, job)  # noqa: E731
        self._own(job, expire, self.oracle.expire, self._once_expired(job))

    def _once_expired(self, job):
        """The state that an expired job is left in: it alone is done and has not run."""
        row = self.oracle.live.get(job.pk)
        return DONE if row and row.dequeued_time is None else CLAIMED

    @move(4, needs="robbed", job=picked("robbed"), verb=LATE)
    def a_robbed_owner_goes_on(self, job, verb):
        self.use_a_claim_of_before(job, verb)

    @move(2, needs="stale", job=picked("stale"), verb=LATE)
    def use_a_claim_of_before(self, job, verb):
        refused = lambda key: pytest.fail(f"{verb} of {key} by a stale owner")  # noqa: E731
        calls = {
            "fail": lambda job: job.fail("late"),
            "expire": lambda job: holder.expire(self.table, job),
        }
        call = calls.get(verb, lambda job: getattr(job, verb)())
        left_in = {"complete": self.once_complete, "expire": self._once_expired(job)}
        self._own(job, call, refused, left_in.get(verb, CLAIMED))

    @move(2, needs="claims", job=picked("claims"))
    def save_as_owner(self, job):
        job = copy.copy(job)
        job.text = f"by {job.claim_owner} {next(self.numbers)}"
        record = self.oracle.live.get(job.pk)
        if record is None or record.owner != job.claim_owner:
            with pytest.raises(ClaimLost):
                job.save()
        else:
            job.save()
            record.text = job.text

    @move(needs="claims", job=picked("claims"), verb=st.sampled_from(["complete", "touch"]))
    def end_a_batch(self, job, verb):
        """All jobs of one claim, whatever became of some."""
        owner = job.claim_owner
        batch = [one.pk for one in self.claims if one.claim_owner == owner]
        kept = DONE if verb == "complete" else CLAIMED
        answers = {key: self.oracle.answer(key, owner, kept) for key in batch}
        for key in batch:
            if self.oracle.holds(key, owner):
                getattr(self.oracle, verb)(key)
        written = getattr(holder, verb)(self.table, owner, batch)
        if verb == "complete" and self.model is StagedFleeting:
            answers = {k: a if k in self.oracle.live else "gone" for k, a in answers.items()}
            if not (written.lost or written.gone):
                answers = dict.fromkeys(batch, "written")
        for word in ("written", "lost", "gone"):
            assert sorted(getattr(written, word)) == sorted(k for k in batch if answers[k] == word)

    # People.

    @move(2, needs="keys", keys=some("keys"), verb=st.sampled_from(sorted(TAKES)))
    def a_person(self, keys, verb):
        takes = [key for key in keys if self.oracle.live[key].status in TAKES[verb]]
        done = getattr(self.model.objects.filter(pk__in=keys), verb)()
        assert (done.changed, done.skipped) == (len(takes), len(keys) - len(takes))
        for key in takes:
            getattr(self.oracle, verb)(key)

    @move()
    def people_look(self):
        self.seen = list(self.model.objects.all())

    @move(3, needs="seen", jobs=some("seen"), verb=st.sampled_from(sorted(TAKES)))
    def a_person_who_looked_before(self, jobs, verb):
        done = getattr(operator, verb)(
            self.table, [(job.pk, job.status, job.owner) for job in jobs]
        )
        same = [job for job in jobs if self._is_as_seen(job) and job.status in TAKES[verb]]
        assert (done.changed, done.skipped) == (len(same), len(jobs) - len(same))
        for job in same:
            getattr(self.oracle, verb)(job.pk)

    def _is_as_seen(self, job):
        now = self.oracle.live.get(job.pk)
        return now is not None and (now.status, now.owner) == (job.status, job.owner)

    @move(needs="seen", job=picked("seen"), priority=st.integers(0, 9))
    def a_person_who_looked_before_edits(self, job, priority):
        job.priority = priority
        if job.pk in self.oracle.live:
            job.save()
            record = self.oracle.live[job.pk]
            record.text, record.priority = job.text, priority
        else:
            with pytest.raises(DatabaseError):
                job.save()

    @move(queue=QUEUES, seconds=st.sampled_from([0, 2, 4, 60, None]))
    def pause_or_resume(self, queue, seconds):
        if seconds == 0:
            self.model.objects.resume(queue)
            self.oracle.paused.pop(queue, None)
            return
        self.model.objects.pause(queue, seconds)
        self.oracle.paused[queue] = None if seconds is None else self.oracle.after(seconds)

    # Time, and what moves by itself.

    @move(4, seconds=st.sampled_from([0.2, 1, 1, 3, 4, 10.001, 11, 40, 101, -1, -5, -40]))
    def the_clock_goes_on_or_jumps_back(self, seconds):
        self._move_clock(seconds)

    def _move_clock(self, seconds):
        self.clock.move(seconds)
        self.oracle.now += timedelta(seconds=seconds)

    @move(2, slot=SLOTS)
    def a_reaper_looks(self, slot):
        self.found[slot] = reap.find_overdue(self.table)
        assert {held.key for held in self.found[slot]} == set(self.oracle.in_state(CLAIMED))

    @move(2, slot=SLOTS)
    def a_reaper_ends_what_it_found(self, slot):
        """Others may have been faster, or the owner has touched it."""
        still = [
            held.key
            for held in self.found[slot]
            if self.oracle.holds(held.key, held.owner)
            and self.oracle.is_past(self.oracle.live[held.key].retry_at)
        ]
        reaped = reap.end_overdue(self.table, self.found[slot])
        assert sorted(one.held.key for one in reaped) == sorted(still)
        for key in still:
            self.oracle.fail(key, "TimeToRunExceeded")

    @move(slot=SLOTS, started=st.sampled_from(["all", "none", "first", "unknown", "overdue"]))
    def a_supervisor_relieves_its_dead_child(self, slot, started):
        uuid = self.workers[slot]
        mine = self.oracle.claims_of(f"{uuid}.")
        chosen = {"none": [], "first": mine[:1], "overdue": mine[:1]}.get(started, mine)
        what = "TimeToRunExceeded" if started == "overdue" else "WorkerLost"
        self._reap_owner(f"{uuid}.", dict.fromkeys(chosen, what), is_known=started != "unknown")

    def _reap_owner(self, prefix, charged, is_known=True):
        mine = self.oracle.claims_of(prefix)
        trace = {str(key): reap.Trace() for key in charged}
        late = {k: t for k, t in trace.items() if charged[int(k)] == "TimeToRunExceeded"}
        reaped = reap.reap_owner(self.table, prefix, trace if is_known else None, late)
        assert sorted(one.held.key for one in reaped) == sorted(mine)
        for key in mine:
            if not is_known:
                self.oracle.lose(key)
            elif key not in charged:
                self.oracle.release(key)
            elif charged[key] == "WorkerLost":
                self.oracle.crash(key)
            else:
                self.oracle.fail(key, charged[key])

    @move(3, may_judge=st.booleans())
    def a_reaper_passes(self, may_judge):
        """The whole pass, as every worker makes it; without judging where it was cut off."""
        done, _ = reaper(self.model).turn(lambda: may_judge)
        reaped = self.oracle.reap_silent() if may_judge else 0
        assert done.promoted == self.oracle.promote()
        reaped += self.oracle.end_overdue() if may_judge else 0
        assert done.reaped == reaped
        assert (done.archived, done.pruned) == (self.oracle.archive(), self.oracle.prune())

    @move(step=st.sampled_from([promotion.promote, archive.archive, archive.prune]))
    def a_step_of_a_pass(self, step):
        assert step(self.table) == getattr(self.oracle, step.__name__)()

    # The judgement.

    @invariant()
    def every_row_is_as_the_model_says(self):
        self.tally["steps"] += 1
        live = rows_of(self.model)
        archived = rows_of(ArchivedStaged)
        check_table(live, archived, self.oracle.known)
        compare(live, self.oracle.live)
        compare(archived, self.oracle.archived)


def rows_of(model):
    rows = list(model._base_manager.order_by("pk").values("id", *NAMES))
    for row in rows:
        row["errors"] = [entry["exception"] for entry in row["errors"]]
    return rows


def compare(rows, records):
    assert [row["id"] for row in rows] == sorted(records)
    for row in rows:
        record = records[row.pop("id")]
        adopt_rounding(row, record)
        assert row == vars(record)


def adopt_rounding(row, record):
    """SQLite reckons in floating point: a millisecond more or less is no matter."""
    if connection.vendor != "sqlite":
        return
    for name in ("retry_at", "finished_at", "dequeued_time"):
        found, wanted = row[name], getattr(record, name)
        if found and wanted and abs(found - wanted) <= timedelta(milliseconds=1):
            setattr(record, name, found)
