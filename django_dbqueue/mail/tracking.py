"""What mail providers tell later of mail that they took: the tracking events of django-anymail."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.db.models import Q

from ..guard import clean
from ..lifecycle.execute import in_transaction
from ..states import Status
from .deliveries import Deliveries, Delivery, Outcome, address_of, delivery
from .models import Email, ProviderNote, Suppression
from .models.provider import NAME_MAX_CHARS
from .models.suppression import Reason, normal
from .rows import PLACES, amend, locked, mail_table

Run = Callable[[Any, Callable[[], bool]], bool | None]

LONGEST_ADDRESS = 320
REJECTED = {
    "bounced": Reason.BOUNCE,
    "invalid": Reason.BOUNCE,
    "spam": Reason.COMPLAINT,
    "unsubscribed": Reason.UNSUBSCRIBED,
}
NOT_DELIVERED = {"bounced", "rejected", "failed"}
MOST_ROWS = 10  # that can have the same name at a provider, by resending or by mistake

# anymail calls many a soft bounce a bounce: only the provider's own words tell.
SAYS_KIND = {"type", "event", "bouncetype", "bounce_type", "severity", "status", "name"}
SOFT = re.compile(r"soft|transient|temporar|undetermined|blocked|expired", re.IGNORECASE)
IS_HARD = "hard_bounce"
OTHER_MATTERS = {"metadata", "tags", "mail", "headers"}
CODE = re.compile(r"(?:^|;)\s*([245]\d\d)\b")


def receive(event: Any, esp_name: str, **_: Any) -> None:
    """Stop mail to an address that bounced for good, complained or unsubscribed, and note in the
    mail that the event is about, archived or not, what became of it.

    What is bad news of a mail that is not recorded yet, or in a worker's hands, is kept for an hour
    until it can be noted (``latecomers``); what is about none of ours does no more than the first.
    """
    address = clean(address_of(event.recipient or ""))
    if "@" not in address:
        return
    reason = _reason(event)
    if reason is not None:
        Suppression.objects.suppress(address, reason, f"{esp_name}: {_text(event)}")
    news = _news(event)
    name = clean(str(event.message_id or ""))[:NAME_MAX_CHARS]
    if news is not None and name and not note(name, address, news, in_transaction):
        _keep(name, address, news)


def _keep(name: str, address: str, news: Delivery) -> None:
    """Only what a mail's own outcome would not say anyway."""
    if news.outcome is Outcome.REFUSED:
        kept = {"address": address[:LONGEST_ADDRESS], "news": asdict(news)}
        ProviderNote.objects.using(mail_table().connection.alias).create(name=name, **kept)


def _reason(event: Any) -> Reason | None:
    """Why the address gets no more mail; None = it does."""
    kind, why = event.event_type, event.reject_reason
    if kind == "complained":
        return Reason.COMPLAINT
    if kind == "unsubscribed":
        return Reason.UNSUBSCRIBED
    if kind == "rejected":
        return REJECTED.get(why)
    is_hard = kind == "bounced" and why in {None, "bounced", "invalid"} and not _is_soft(event)
    return Reason.BOUNCE if is_hard else None


def _is_soft(event: Any) -> bool:
    code = _code(event)
    return (code is not None and code < 500) or _speaks_of_soft(event.esp_event)


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


def _news(event: Any) -> Delivery | None:
    """The recipient's outcome; None where the event tells of none."""
    at = _moment(event.timestamp or datetime.now(UTC))
    if event.event_type in NOT_DELIVERED:
        known = delivery(Outcome.REFUSED, _code(event), _text(event))
        return Delivery(known.outcome, known.code, known.text, at)
    if event.event_type == "delivered":
        return Delivery(Outcome.DELIVERED, _code(event), _text(event), at)
    return None


def note(name: str, address: str, news: Delivery, run: Run) -> bool:
    """Write it into the mail that a provider calls so; False where there is none, or not yet."""
    table = mail_table()
    noted = False
    for model in PLACES:
        for key in keys_by_name(model, table.connection.alias, [name])[:MOST_ROWS]:
            noted |= bool(run(table.connection, partial(_note_in, model, key, address, news)))
    return noted


def keys_by_name(model: Any, alias: str, names: list[str]) -> list[Any]:
    """The mails that go by one of these names. Some providers call a mail by its Message-ID, which
    it has before it is sent."""
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


def _note_in(model: Any, key: Any, address: str, news: Delivery) -> bool:
    table = mail_table()
    row = locked(table, model, key)
    if row is None or (model is Email and row.status == Status.CLAIMED):
        return False
    deliveries = Deliveries(row.deliveries)
    known = [one for one in deliveries.by_address if normal(one) == normal(address)]
    new = {one: news for one in known if _is_new(news, deliveries.by_address[one])}
    deliveries.by_address |= new
    if new and not amend(table, row, {"deliveries": deliveries.stored()}):
        return False
    return bool(known)


def _is_new(news: Delivery, known: Delivery) -> bool:
    """What was delivered stays so, unless it came back; events come in any order."""
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


def _moment(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(timespec="seconds")
