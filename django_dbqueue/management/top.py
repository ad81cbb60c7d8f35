"""``manage.py dbqueue top``: queues, failures, workers and what runs, live, with keys to pause,
retry and stop."""

import os
import select
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..worker.served import parse_served
from .choosing import add_tables
from .colours import is_terminal
from .durations import duration
from .looking import CtrlC, until_ctrl_c
from .recording import add_user, user_of
from .top_model import Top
from .verbs import Refused, Verb

EVERY_SECONDS = 2.0
SECONDS_LEAST = 0.2
KEY_BYTES = 32
NEEDS_RICH = gettext_lazy(
    "top needs rich: pip install 'django-dbqueue[top]'; `dbqueue status --watch` does not"
)
NEEDS_TERMINAL = gettext_lazy("top needs a terminal; `dbqueue status` does not")


def add_arguments(parser: ArgumentParser) -> None:
    add_tables(parser)
    add_user(parser)
    every = _("how often it looks; default: every 2 s")
    parser.add_argument("--every", type=duration, default=EVERY_SECONDS, help=every)


def run(options: dict[str, Any]) -> str:
    if options["json"]:
        raise Refused(_("top is for people: `dbqueue status --json` is for programs"))
    if find_spec("rich") is None:
        raise Refused(str(NEEDS_RICH))
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise Refused(str(NEEDS_TERMINAL))
    tables = parse_served(options["tables"], options["database"])
    top = Top(tables, user_of(options))
    with until_ctrl_c() as ctrl_c, keys_of(sys.stdin.fileno()) as terminal:
        follow(top, terminal, max(SECONDS_LEAST, options["every"]), ctrl_c)
    return ""


def follow(top: Top, terminal: int, seconds: float, ctrl_c: CtrlC) -> None:
    """Look, show, and do what the keys say, until one says to end."""
    from .top_screen import shown_live  # noqa: PLC0415  # needs rich

    with shown_live() as show:
        while not (top.has_ended or ctrl_c.has_come):
            top.look()
            due = time.monotonic() + seconds
            while not (top.has_ended or top.wants_look or ctrl_c.has_come):
                show(top)
                for key in pressed(terminal, due - time.monotonic()):
                    top.press(key)
                if time.monotonic() >= due:
                    break


def pressed(terminal: int, seconds: float) -> list[str]:
    """The keys of up to so many seconds, as soon as there are some."""
    ready, _, _ = select.select([terminal], [], [], max(0.0, seconds))
    return list(split(os.read(terminal, KEY_BYTES).decode(errors="ignore"))) if ready else []


def split(text: str) -> Iterator[str]:
    """Keys one by one: those of cursors are sent as three characters."""
    if not text:  # the terminal is gone
        yield "q"
    while text:
        size = 3 if text.startswith(("\x1b[", "\x1bO")) else 1
        yield text[:size]
        text = text[size:]


@contextmanager
def keys_of(terminal: int) -> Iterator[int]:
    """Each key comes at once, and is not shown; afterwards it is as it was."""
    import termios  # noqa: PLC0415  # not on every system, and other verbs do without
    import tty  # noqa: PLC0415

    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        yield terminal
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


TOP = Verb(gettext_lazy("all of it, live, with keys to pause, retry and stop"), add_arguments, run)
