"""What mail providers tell later of messages that they took: the tracking events of django-anymail.

What they tell of a message before it is recorded is noted by the reaper, once it is.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from enum import IntEnum
from functools import partial
from typing import Any

from django.db.models import Q, QuerySet

from ..fields import DbNow
from ..guard import clean
from ..lifecycle.execute import in_transaction, try_once_in_transaction
from ..lifecycle.table import Table
from ..states import Status
from .deliveries import (
    OPEN,
    SENT,
    Deliveries,
    Delivery,
    Outcome,
    address_of,
    delivery,
    iso_seconds,
    read_entry,
)
from .in_doubt import finish
from .models import Email, ProviderNote, Suppression
from .models.provider import NAME_MAX_CHARS
from .models.suppression import Reason, normal
from .rows import PLACES, amend, locked, mail_table


class Found(IntEnum):
    """What an event is about."""

    NOTHING = 0  # of ours, or not yet
    IN_HAND = 1  # of a worker, just now
    NOTED = 2


Run = Callable[[Any, Callable[[], Found]], Found | None]

ADDRESS_MAX_CHARS = 320
REJECTED = {
    "bounced": Reason.BOUNCE,
    "invalid": Reason.BOUNCE,
    "spam": Reason.COMPLAINT,
    "unsubscribed": Reason.UNSUBSCRIBED,
}
OUTCOMES = {
    "delivered": Outcome.DELIVERED,
    **dict.fromkeys(("bounced", "rejected", "failed"), Outcome.REFUSED),
}
# Rows that can have the same name at a provider, by resending or by mistake.
ROWS_BY_NAME_MAX = 10
CHUNK = 100
KEEP_NEWS_SECONDS = 3600.0
KEEP_NAMES_SECONDS = 30 * 86400.0
SWEEP_SECONDS = 3600.0  # from one sweep of the names to the next

# anymail calls many a soft bounce a bounce: only the provider's own words tell.
SAYS_KIND = {"type", "event", "bouncetype", "bounce_type", "severity", "status", "name"}
SOFT = re.compile(r"soft|transient|temporar|undetermined|blocked|expired", re.IGNORECASE)
IS_HARD = "hard_bounce"
OTHER_MATTERS = {"metadata", "tags", "mail", "headers"}
CODE = re.compile(r"(?:^|;)\s*([245]\d\d)\b")


def receive(event: Any, esp_name: str, **_: Any) -> None:
    """Stop messages to an address that bounced for good, complained or unsubscribed, and note in
    the email that the event is about, archived or not, what became of it.

    What is told of an email in a worker's hands, and bad news of one that is not recorded yet, is
    kept for an hour until it can be noted (``LateEvents``); what is about none of ours does no more
    than the first.
    """
    address = clean(address_of(event.recipient or ""))
    if "@" not in address:
        return
    reason = _reason(event)
    if reason is not None:
        Suppression.objects.suppress(address, reason, f"{esp_name}: {_text(event)}")
    outcome = OUTCOMES.get(event.event_type)
    name = clean(str(event.message_id or ""))[:NAME_MAX_CHARS]
    if outcome is None or not name:
        return
    news = Delivery(outcome, _code(event), _text(event), iso_seconds(event.timestamp))
    found = note(name, address, news, in_transaction)
    # Of what nobody knows yet, only what the email's own outcome would not say anyway.
    if found is Found.IN_HAND or (found is Found.NOTHING and outcome is Outcome.REFUSED):
        kept = {"address": address[:ADDRESS_MAX_CHARS], "news": asdict(news)}
        ProviderNote.objects.using(mail_table().connection.alias).create(name=name, **kept)


def _reason(event: Any) -> Reason | None:
    """Why the address gets no more messages; None = it does."""
    kind, why = event.event_type, event.reject_reason
    if kind == "complained":
        return Reason.COMPLAINT
    if kind == "unsubscribed":
        return Reason.UNSUBSCRIBED
    if kind == "rejected":
        return REJECTED.get(why)
    if kind != "bounced" or why not in {None, "bounced", "invalid"}:
        return None
    code = _code(event)
    is_soft = (code is not None and code < 500) or _speaks_of_soft(event.esp_event)
    return None if is_soft else Reason.BOUNCE


def _speaks_of_soft(told: Any) -> bool:
    if isinstance(told, list):
        return any(map(_speaks_of_soft, told))
    if not isinstance(told, Mapping):
        return False
    return any(
        (str(key).lower() in SAYS_KIND and isinstance(value, str) and bool(SOFT.search(value)))
        or (key == IS_HARD and value is False)
        or _speaks_of_soft(value)
        for key, value in told.items()
        if str(key).lower() not in OTHER_MATTERS
    )


def note(name: str, address: str, news: Delivery, run: Run) -> Found:
    """Write it into the email that a provider calls so, where there is one by now."""
    table = mail_table()
    found = Found.NOTHING
    for model in PLACES:
        for key in keys_by_name(model, table.connection.alias, [name])[:ROWS_BY_NAME_MAX]:
            one = run(table.connection, partial(_note_in, model, key, address, news))
            found = max(found, one or Found.NOTHING)
    return found


def keys_by_name(model: Any, alias: str, names: list[str]) -> list[Any]:
    """The emails that go by one of these names. Some providers call an email by its Message-ID,
    which it has before it is sent."""
    several = ProviderNote.objects.using(alias).filter(name__in=names, email__isnull=False)
    ways = (
        Q(provider_id__in=names),
        Q(message_id__in=[*names, *(f"<{name}>" for name in names)]),
        Q(pk__in=list(several.values_list("email", flat=True))),
    )
    # One by one: with OR between them, no index would be used.
    rows = model._base_manager.using(alias)
    found = {key for way in ways for key in rows.filter(way).values_list("pk", flat=True)}
    return sorted(found)


def _note_in(model: Any, key: Any, address: str, news: Delivery) -> Found:
    table = mail_table()
    row = locked(table, model, key)
    if row is None:
        return Found.NOTHING
    if model is Email and row.status == Status.CLAIMED:
        return Found.IN_HAND
    deliveries = Deliveries(row.deliveries)
    known = [one for one in deliveries.by_address if normal(one) == normal(address)]
    new = {one: news for one in known if _is_new(news, deliveries.by_address[one])}
    deliveries.by_address |= new
    if new and not amend(table, row, {"deliveries": deliveries.stored()}):
        return Found.IN_HAND
    is_buried = model is Email and row.status == Status.BURIED
    if new and is_buried and not deliveries.having(OPEN | {Outcome.REFUSED}):
        finish(table, row)
    return Found.NOTED if known else Found.NOTHING


def _is_new(news: Delivery, known: Delivery) -> bool:
    """What was delivered stays so, unless it came back; events come in any order. Of an attempt
    whose answer was lost the provider knows more; a bounce may be of an earlier one."""
    may_have_it = known.doubts and known.outcome not in SENT
    if known.outcome in OPEN or may_have_it:
        return news.outcome is Outcome.DELIVERED or news.at >= known.at
    if known.outcome not in {Outcome.DELIVERED, Outcome.REFUSED}:
        return False
    return news.outcome != known.outcome and (news.outcome is Outcome.REFUSED or news.at > known.at)


def _text(event: Any) -> str:
    """The provider's words in one line that every database takes."""
    said = [event.event_type, event.description, event.mta_response]
    return delivery(Outcome.REFUSED, None, " ".join(str(one) for one in said if one)).text


def _code(event: Any) -> int | None:
    found = CODE.search(str(event.mta_response or ""))
    return int(found[1]) if found else None


class LateEvents:
    """Notes up to 100 pieces of news whenever it is called; what nothing was known of for an hour
    is given up, and which email has which names is forgotten after 30 days."""

    def __init__(self) -> None:
        self._after = 0
        self._sweep_at = 0.0

    def __call__(self, table: Table) -> int:
        """How many rows of its own were done with."""
        rows = ProviderNote.objects.using(table.connection.alias)
        found = rows.filter(email__isnull=True, pk__gt=self._after).order_by("pk")[:CHUNK]
        waiting = list(found.annotate(now=DbNow()))
        self._after = waiting[-1].pk if len(waiting) == CHUNK else 0
        done = []
        for one in waiting:
            news = read_entry(one.news)
            if (
                news is None
                or _is_older(one, KEEP_NEWS_SECONDS)
                or note(one.name, one.address, news, try_once_in_transaction) is Found.NOTED
            ):
                done.append(one.pk)
        return _delete(rows, done) + self._forget_names(rows)

    def _forget_names(self, rows: QuerySet[ProviderNote]) -> int:
        if time.monotonic() < self._sweep_at:
            return 0
        oldest = rows.filter(email__isnull=False).order_by("pk").annotate(now=DbNow())[:CHUNK]
        old = [one.pk for one in oldest if _is_older(one, KEEP_NAMES_SECONDS)]
        if len(old) < CHUNK:
            self._sweep_at = time.monotonic() + SWEEP_SECONDS
        return _delete(rows, old)


def _is_older(one: Any, seconds: float) -> bool:
    return bool((one.now - one.created_at).total_seconds() > seconds)


def _delete(rows: QuerySet[ProviderNote], keys: list[int]) -> int:
    return rows.filter(pk__in=keys).delete()[0] if keys else 0
