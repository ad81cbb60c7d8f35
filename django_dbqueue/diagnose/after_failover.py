"""What is left where a database has lost its last commits, or went on with another clock."""

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.db import connections
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from ..fields import DbNow
from ..lifecycle.table import Table
from ..models import Receipt, Worker
from ..models.receipt import KEPT, digest_of
from .rules import patience

RECEIPTS_MAX = 500  # the newest ones of a table
ROWS_MAX = 10_000  # the newest ones, among which done jobs are looked for
Finding = tuple[str, str, str]  # a key as text, what is wrong, and the advice

BEAT_TO_COME = (
    gettext_noop("has a beat from the future"),
    gettext_noop(
        "mend this server's clock, which is behind: until then it is listed as alive, living or not"
    ),
)
GONE = (
    gettext_noop("has left effects, and is not there"),
    gettext_noop(
        "if nobody deleted it, its database has lost it: its work is done, so do not enqueue it "
        "again"
    ),
)
OTHER = (
    gettext_noop("has an id that another job had, whose effects are there"),
    gettext_noop(
        "its database has lost that one: set the next id above all that were given "
        "(docs/failover.md)"
    ),
)
UNSEEN = (
    gettext_noop("is done, and its receipt is not there"),
    gettext_noop(
        "the database of its effects may have lost them: look there, and enqueue it again if so"
    ),
)


def told(words: tuple[str, str]) -> tuple[str, str]:
    """What is wrong, and the advice, in the language that is active."""
    what, advice = words
    return _(what), _(advice)


def beats_to_come(using: str) -> list[str]:
    """The uuids of workers that have beaten later than now."""
    living = Worker.objects.using(using).filter(stopped_at=None)
    return [*living.filter(beat_at__gt=DbNow(plus=patience())).values_list("uuid", flat=True)]


def receipt_findings(table: Table) -> Iterator[Finding]:
    """Of a table whose jobs' effects are in another database: what does not go together."""
    effects = table.policy.exactly_once
    if not isinstance(effects, str) or effects not in connections:
        return
    newest = _kept_seconds(table)
    if newest <= 0:
        return
    receipts = Receipt.objects.db_manager(effects).of_table(table)
    recent = receipts.filter(written_at__gt=DbNow(plus=-newest)).order_by("-written_at")
    found = list(recent.values_list("digest", "job_key")[:RECEIPTS_MAX])
    made = _made(table, [key for _, key in found])
    expected = {key: digest_of(table, key, at) for key, at in made.items()}
    written = {digest for digest, _ in found}
    for digest, key in found:
        if key not in made:
            yield key, *told(GONE)
        elif digest != expected[key] and expected[key] not in written:
            yield key, *told(OTHER)
    yield from _done_without(table, receipts, newest)


def _done_without(table: Table, receipts: Any, newest: float) -> Iterator[Finding]:
    """What has expired was not run, and left none."""
    jobs = table.model._base_manager.using(table.connection.alias).order_by("-pk")
    # No index knows what was done lately: in a table without any, all of it would be read.
    for before in jobs.values_list("pk", flat=True)[ROWS_MAX : ROWS_MAX + 1]:
        jobs = jobs.filter(pk__gt=before)
    last = jobs.values_list("pk", "created_at", "status", "finished_at", "expires_at")
    seconds = DbNow(plus=-newest)
    done = last.filter(status=2, expires_at=None, finished_at__gt=seconds)[:RECEIPTS_MAX]
    digests = {digest_of(table, key, at): str(key) for key, at, *_ in done}
    there = receipts.filter(digest__in=list(digests)).values_list("digest", flat=True)
    for digest in digests.keys() - set(there):
        yield digests[digest], *told(UNSEEN)


def _kept_seconds(table: Table) -> float:
    """Half of the time for which a job and its receipt are kept: neither is being pruned."""
    kept = table.policy.prune_after
    return (KEPT if kept is None else min(KEPT, kept)) / 2


def _made(table: Table, keys: list[str]) -> dict[str, Any]:
    """By key, as text, when each that is there was enqueued; in the archive, too."""
    models: list[Any] = [table.model]
    if table.policy.archive is not None:
        models.append(apps.get_model(table.policy.archive))
    made: dict[str, Any] = {}
    for model in models:
        jobs = model._base_manager.using(table.connection.alias)
        these = [model._meta.pk.to_python(key) for key in keys]
        rows = jobs.filter(pk__in=these).values_list("pk", "created_at")
        made |= {str(key): at for key, at in rows}
    return made
