"""What backends read on a message besides what Django has there: to JSON and back."""

import logging
import sys
from collections.abc import Collection, Iterator
from datetime import date, datetime
from typing import Any

from django.core.mail import EmailMessage, EmailMultiAlternatives
from django.utils.functional import Promise

from ..conf import mail_conf

logger = logging.getLogger("django_dbqueue")

# By package; more than one may read the same. django-ses and django-amazon-ses read headers alone.
READ_BY_BACKENDS = {
    # django-anymail
    *("envelope_sender", "esp_extra", "merge_data", "merge_global_data", "merge_headers"),
    *("merge_metadata", "metadata", "send_at", "tags", "template_id"),
    *("track_clicks", "track_opens"),
    # django-sendgrid-v5
    *("asm", "categories", "custom_args", "dynamic_template_data", "ip_pool_name"),
    *("make_private", "personalizations", "reply_to_list", "substitutions"),
    # sparkpost
    *("campaign", "substitution_data", "template"),
    # postmarker, postmark-python
    *("message_stream", "tag"),
    # django-mailjet
    *("custom_id", "deduplicate_campaign", "event_payload", "recipient_vars", "template_vars"),
    *("template_error_deliver", "template_error_reporting", "template_language"),
    *("track_click", "track_open"),
    # django-getresponse
    "tag_id",
}
LEFT_OUT = (
    "messages of %s are queued without their attributes %s; "
    "name those that your mail backend reads in DBQUEUE['MAIL_ATTRIBUTES']"
)
MISSING = object()

# The names of classes of which LEFT_OUT was logged.
told: set[str] = set()


def encode(message: EmailMessage, known: Collection[str]) -> dict[str, Any]:
    """Return the attributes that delivering backends are known to read.

    What is there besides, and is not ``known``, is left out, as is what is neither plain data nor,
    as a whole, a date; a log line says so once for each class.
    """
    extra, moments, unfit = {}, {}, []
    wanted = READ_BY_BACKENDS.union(mail_conf["ATTRIBUTES"]).difference(known)
    for name in sorted(wanted):
        try:
            value = getattr(message, name, MISSING)
            if value is MISSING or _is_unset(value):
                continue
            if isinstance(value, date):
                moments[name] = value.isoformat()
            else:
                extra[name] = _plain(value)
        except Exception:  # noqa: BLE001  # why: whatever a property of the project's raises
            unfit.append(name)
    _tell(message, _others(message, wanted.union(known)), unfit)
    return {"extra": extra, **({"moments": moments} if moments else {})}


def decode(stored: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and values that ``encode`` returned."""
    yield from stored["extra"].items()
    for name, text in stored.get("moments", {}).items():
        yield name, datetime.fromisoformat(text) if "T" in text else date.fromisoformat(text)


def _others(message: EmailMessage, known: Collection[str]) -> list[str]:
    """Its own, and plain data in the body of its class, as in ``tags = ["invoice"]`` there."""
    found = set(vars(message))
    for kind in type(message).__mro__:
        if not issubclass(EmailMultiAlternatives, kind):
            found.update(name for name, value in vars(kind).items() if _is_data(value))
    return [name for name in found if name not in known and not name.startswith("_")]


def _tell(message: EmailMessage, others: list[str], unfit: list[str]) -> None:
    name = f"{type(message).__module__}.{type(message).__qualname__}"
    if not (others or unfit) or name in told:
        return
    told.add(name)
    names = sorted([*others, *(f"{one} (not plain data)" for one in unfit)])
    logger.warning(LEFT_OUT, name, ", ".join(names))


def _is_data(value: Any) -> bool:
    return isinstance(value, (str, bool, int, float, dict, list, tuple, date, Promise))


def _is_unset(value: Any) -> bool:
    # What an AnymailMessage bears until something else is set.
    anymail = sys.modules.get("anymail.utils")
    return anymail is not None and value is getattr(anymail, "UNSET", anymail)


def _plain(value: Any) -> Any:
    if isinstance(value, Promise):
        return str(value)
    if isinstance(value, dict):
        return {_plain_key(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise TypeError(f"{type(value).__name__} is not plain data")


def _plain_key(key: Any) -> str:
    if not isinstance(key, (str, Promise)):
        raise TypeError(f"{type(key).__name__} is not the key of plain data")
    return str(key)
