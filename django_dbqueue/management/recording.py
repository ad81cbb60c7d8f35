"""Who gives a command: what they do is recorded like what is done in the admin."""

from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from django.apps import apps
from django.utils.translation import gettext as _

from ..conf import conf
from ..operate.recording import CHANGED, DELETED, record
from .reporting import Report
from .verbs import Refused

# By which jobs are chosen; the last two are of ``prune``.
FILTERS = (
    *("state", "queue", "older_than", "newer_than", "until", "error", "failure", "limit", "id"),
    *("include_claimed", "failed", "done"),
)


def add_user(parser: ArgumentParser) -> None:
    who = _(
        "a user of the project: the admin's log has the action as theirs; default: the setting "
        "OPERATOR"
    )
    parser.add_argument("--by", metavar="USERNAME", help=who)


def user_of(options: dict[str, Any]) -> Any:
    """The key of the user, or None where none was named; ``Refused`` where there is none such."""
    name = options["by"] or conf["OPERATOR"]
    if not name:
        return None
    if not apps.is_installed("django.contrib.admin"):
        text = _("--by: there is no log, since django.contrib.admin is not installed")
        raise Refused(text)
    from django.contrib.auth import get_user_model  # noqa: PLC0415  # needs the app

    model: Any = get_user_model()
    user = model._default_manager.filter(**{model.USERNAME_FIELD: name}).first()
    if user is None:
        text = _("--by: there is no user %(name)s; nothing was changed")
        raise Refused(text % {"name": repr(name)})
    return user.pk


@contextmanager
def recorded(report: Report, user: Any) -> Iterator[None]:
    """One entry for each table in which jobs were changed, even if the rest failed."""
    try:
        yield
    finally:
        for _name, served, progress in report.done if user is not None else ():
            if not report.is_dry and progress.taken:
                said = f"{progress.verb.told}: {progress}; dbqueue {report.word}"
                flag = DELETED if progress.verb.is_final else CHANGED
                asked = filters(report.options, served.queue)
                note = partial(record, user, served.model, progress.first, using=served.using)
                note(said, number=progress.taken, filters=asked, flag=flag)


def filters(options: dict[str, Any], queue: str | None) -> str:
    """What the command was given, in its own words."""
    given = {name: options.get(name) for name in FILTERS}
    given |= {"queue": [queue]} if queue else {}
    words = [(name.replace("_", "-"), _text(value)) for name, value in given.items()]
    return " ".join(f"--{name}{text}" for name, text in words if text is not None)


def _text(value: Any) -> str | None:
    """With a space before it; '' for a switch that is on, None for what was not given."""
    if value is None or value is False or value == []:
        return None
    if value is True:
        return ""
    if isinstance(value, float):
        return f" {value:.15g}"
    return " " + (" ".join(map(str, value)) if isinstance(value, list) else str(value))
