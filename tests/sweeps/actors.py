"""What may happen to jobs, each as one act with an answer: what the caller is told of it.

Answers are by row where the verb tells of rows, otherwise a count.
"""

from collections.abc import Callable
from dataclasses import dataclass

from django_dbqueue.dialects.types import RowsLocked
from django_dbqueue.exceptions import ClaimLost
from django_dbqueue.lifecycle import archive, holder, promotion, reap
from django_dbqueue.lifecycle.table import table_of
from tests.sweeps.worlds import DEDUP, HOLDER, NAMES


@dataclass(frozen=True)
class Actor:
    """``homes``: in which it finds something to do. ``passes``: it comes by again and again, and
    leaves for another time what is locked. ``by_hand``: it skips a job that has moved on since the
    look, whatever it could do with the job as it is now. ``waits``: on SQLite, as long as a user's
    code does, where our own connections try again. ``stops``: it may be stopped in the middle, for
    it is one verb."""

    act: Callable[..., object]
    homes: tuple[str, ...]
    passes: bool = False
    by_hand: bool = False
    waits: bool = False
    stops: bool = True


def table(world):
    return table_of(world.model, "default")


def claim(world, who):
    jobs = world.model.objects.claim(limit=len(world.keys), owner=f"{who}.1")
    return {NAMES.get(job.pk, "new"): "claimed" for job in jobs}


def told(written):
    return {
        NAMES[key]: word for word in ("written", "lost", "gone") for key in getattr(written, word)
    }


def complete(world, who):
    return told(holder.complete(table(world), HOLDER, world.keys))


def release(world, who):
    written = holder.release(table(world), HOLDER, world.keys)
    # Of a batch that was released in part only, all that is left counts as lost: nobody is the
    # owner any more.
    return told(written) if len(world.keys) == 1 else len(written.gone)


def change_hands(world, who):
    """The holder gives back, and somebody else claims."""
    holder.release(table(world), HOLDER, world.keys)
    return claim(world, who)


def touch(world, who):
    return told(holder.touch(table(world), HOLDER, world.keys))


def fail(world, who):
    answer = {}
    for job in world.held():
        try:
            verdict = holder.fail(table(world), job, RuntimeError("it does not work"))
            answer[NAMES[job.pk]] = getattr(verdict, "status", "gone")
        except ClaimLost:
            answer[NAMES[job.pk]] = "lost"
    return answer


def save(world, who):
    answer = {}
    for job in world.held():
        job.priority = 7
        try:
            job.save()
            answer[NAMES[job.pk]] = "saved"
        except ClaimLost:
            answer[NAMES[job.pk]] = "lost"
    return answer


def ended(reaped):
    return {NAMES[one.held.key]: one.decision.status for one in reaped}


def reap_dead(world, who):
    try:
        return ended(reap.reap_owner(table(world), "w1."))
    except RowsLocked:
        return {}


def reap_unstarted(world, who):
    try:
        return ended(reap.reap_owner(table(world), "w1.", started={}))
    except RowsLocked:
        return {}


def reap_overdue(world, who):
    return ended(reap.end_overdue(table(world), reap.find_overdue(table(world))))


def give_back(world, who):
    return ended(reap.give_back(table(world), HOLDER))


def promote(world, who):
    return promotion.promote(table(world))


def move_to_archive(world, who):
    return archive.archive(table(world))


def prune(world, who):
    return archive.prune(table(world))


def by_hand(verb):
    def act(world, who):
        # Not compared is what was skipped: a row that went away after the look counts there,
        # one that went away before it does not.
        return getattr(world.model.objects.filter(pk__in=world.keys), verb)().changed

    return act


def retry(world, who):
    return world.model.objects.buried().kick().changed


def pause(world, who):
    world.model.objects.pause(reason="for the test")
    return "paused"


def enqueue(world, who):
    job, created = world.model.objects.enqueue(dedup_key=DEDUP)
    return "created" if created else NAMES.get(job and job.pk, "another")


RUNS = ("claimed", "stolen")
ACTORS = {
    "claim": Actor(claim, ("ready",)),
    "complete": Actor(complete, RUNS),
    "fail": Actor(fail, RUNS),
    "release": Actor(release, RUNS),
    "change hands": Actor(change_hands, ("claimed",), stops=False),
    "touch": Actor(touch, (*RUNS, "overdue")),
    "reap the dead": Actor(reap_dead, ("claimed",), passes=True),
    "reap the unstarted": Actor(reap_unstarted, ("claimed",), passes=True),
    "reap the overdue": Actor(reap_overdue, ("overdue",), passes=True),
    "promote": Actor(promote, ("delayed",), passes=True),
    "kick": Actor(by_hand("kick"), ("delayed", "buried"), by_hand=True),
    "bury": Actor(by_hand("bury"), ("ready", "claimed", "delayed"), by_hand=True),
    "take away": Actor(by_hand("release"), ("claimed",), by_hand=True),
    "cancel": Actor(
        by_hand("cancel"), ("ready", "claimed", "delayed", "buried", "finished"), by_hand=True
    ),
    "pause": Actor(pause, ("ready",), waits=True),
    "archive": Actor(move_to_archive, ("finished",), passes=True),
    "prune": Actor(prune, ("finished", "archived"), passes=True),
    "retry all": Actor(retry, ("buried",), by_hand=True),
    "enqueue": Actor(enqueue, ("ready", "claimed"), waits=True),
    "save": Actor(save, RUNS, waits=True),
    "give back": Actor(give_back, ("claimed",)),
}
