"""What mail providers tell later of mail that they took: the tracking events of django-anymail."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from ..guard import clean
from ..lifecycle.execute import together
from .deliveries import Deliveries, Delivery, Outcome, address_of, delivery
from .models import Suppression
from .models.suppression import Reason, normal
from .rows import PLACES, amend, locked, mail_table

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

    Mail that a worker has in hand is left as it is, and an event about none of ours, or about one
    whose sending is not recorded yet, does no more than the first.
    """
    address = clean(address_of(event.recipient or ""))
    if "@" not in address:
        return
    reason = _reason(event)
    if reason is not None:
        Suppression.objects.suppress(address, reason, f"{esp_name}: {_text(event)}")
    news = _news(event)
    if news is not None and event.message_id:
        _note(clean(str(event.message_id)), address, news)


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


def _note(provider_id: str, address: str, news: Delivery) -> None:
    table = mail_table()
    for model in PLACES:
        rows = model._base_manager.using(table.connection.alias).filter(provider_id=provider_id)
        for key in list(rows.order_by("pk").values_list("pk", flat=True)[:MOST_ROWS]):
            work = partial(_note_in, model, key, address, news)
            together(table.connection, work)


def _note_in(model: Any, key: Any, address: str, news: Delivery) -> None:
    table = mail_table()
    row = locked(table, model, key)
    if row is None:
        return
    deliveries = Deliveries(row.deliveries)
    known = [one for one in deliveries.by_address if normal(one) == normal(address)]
    for one in known:
        if _is_new(news, deliveries.by_address[one]):
            deliveries.by_address[one] = news
            amend(table, row, {"deliveries": deliveries.stored()})


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
