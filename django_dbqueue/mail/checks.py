"""System checks: somebody delivers the queued mail, and it is not the queue itself."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.utils.module_loading import import_string

from .conf import mail_conf, mailers_configured

SMTP = "django.core.mail.backends.smtp.EmailBackend"


def check_delivery(**_: Any) -> list[CheckMessage]:
    """Errors when queued mail would be queued again, or when nobody is there to deliver it."""
    return list(_mailers() if mailers_configured() else _delivery_backend())


def _delivery_backend() -> Iterator[CheckMessage]:
    path = mail_conf["DELIVERY_BACKEND"]
    yield from _judge(path, "DBQUEUE['MAIL_DELIVERY_BACKEND']")


def _mailers() -> Iterator[CheckMessage]:
    wanted = dict(_queueing_entries())
    if mail_conf["USING"]:
        wanted["DBQUEUE['MAIL_USING']"] = mail_conf["USING"]
    for source, using in wanted.items():
        yield from _judge_mailer(source, using)


def _entries() -> dict[str, dict[str, Any]]:
    entries: Any = settings.MAILERS
    return dict(entries)


def delivering_entries() -> set[str]:
    """The entries of ``MAILERS`` that queued mail may go out by."""
    return {alias for alias, one in _entries().items() if not _queues(one.get("BACKEND", SMTP))}


def _queueing_entries() -> Iterator[tuple[str, str | None]]:
    for alias, entry in _entries().items():
        if _queues(entry.get("BACKEND", SMTP)):
            using = entry.get("OPTIONS", {}).get("using") or mail_conf["USING"]
            yield f"MAILERS[{alias!r}]", using


def _judge_mailer(source: str, using: str | None) -> Iterator[CheckMessage]:
    if using is None or using not in _entries():
        yield Error(
            f"{source}: 'using' must name the entry of MAILERS that delivers, not {using!r}.",
            hint='Set OPTIONS = {"using": "smtp"}, or DBQUEUE["MAIL_USING"].',
            id="dbqueue_mail.E002",
        )
        return
    yield from _judge(_entries()[using].get("BACKEND", SMTP), f"{source}: {using!r}")


def _judge(path: str, source: str) -> Iterator[CheckMessage]:
    queues = _queues(path)
    if queues is None:
        yield Error(f"{source}: cannot import {path!r}.", id="dbqueue_mail.E003")
    elif queues:
        yield Error(
            f"{source}: {path} queues mail; queued mail would be queued again for ever.",
            hint="Name the backend that delivers, as SMTP.",
            id="dbqueue_mail.E001",
        )


def _queues(path: str) -> bool | None:
    """Whether a backend queues mail; None when it cannot be imported."""
    try:
        return bool(getattr(import_string(path), "queues_mail", False))
    except ImportError:
        return None
