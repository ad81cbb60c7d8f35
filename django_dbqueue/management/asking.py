"""Asking workers for something, where some of the databases cannot be asked."""

from collections.abc import Mapping, Sequence

from django.utils.translation import gettext as _

from ..exceptions import first_line
from ..monitor.overview import database_name, in_words
from ..monitor.worker_list import ListedWorker
from ..monitor.worker_requests import UnknownWorker, request_known
from ..texts.wording import said
from .advice import with_advice
from .commands._log import printable
from .verbs import ProblemsFound, Refused


def ask(
    verb: str, names: Sequence[str], using: str | None
) -> tuple[list[ListedWorker], Mapping[str, Exception]]:
    """Who was asked, and by alias why a database cannot be asked."""
    try:
        return request_known(verb, names, using)
    except UnknownWorker as error:
        if not error.problems:
            raise
        why = f"{said(error)}\n{unreachable(error.problems, using)}"
        raise Refused(printable(why)) from error


def shown_with(text: str, problems: Mapping[str, Exception], using: str | None) -> str:
    """``ProblemsFound`` where some of the databases cannot be asked."""
    if problems:
        raise ProblemsFound(text, printable(unreachable(problems, using)))
    return text


def unreachable(problems: Mapping[str, Exception], using: str | None) -> str:
    cannot = _("%(name)s cannot be asked: %(why)s")
    lines = [
        cannot % {"name": in_words(database_name(alias)), "why": first_line(error)}
        for alias, error in problems.items()
    ]
    return with_advice("\n".join(lines), using)
