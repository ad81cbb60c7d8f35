"""Verbs of ``manage.py dbqueue`` that other apps bring along."""

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Verb:
    """``run`` takes the options and answers the text to print; bad input is a ``ValueError`` or a
    ``ValidationError``."""

    help: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[dict[str, Any]], str]


# By the word on the command line. An app adds its own in ``ready()``.
VERBS: dict[str, Verb] = {}
