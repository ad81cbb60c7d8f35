"""Verbs of ``manage.py dbqueue`` that other apps bring along, and how any verb ends."""

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandError

FOUND, REFUSED = 1, 2


@dataclass(frozen=True)
class Verb:
    """``run`` takes the options and answers the text to print; bad input is a ``ValueError`` or a
    ``ValidationError``."""

    help: Any  # in the language that is active
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[dict[str, Any]], str]


class ProblemsFound(CommandError):
    """For exit code 1, or another; ``text`` is what was found or done."""

    def __init__(self, text: str, summary: str, code: int = FOUND) -> None:
        super().__init__(summary, returncode=code)
        self.text = text


class Refused(CommandError):
    """For exit code 2, or another: nothing was changed; the message says what to do."""

    def __init__(self, why: str, code: int = REFUSED) -> None:
        super().__init__(why, returncode=code)


# By the word on the command line. An app adds its own in ``ready()``.
VERBS: dict[str, Verb] = {}
