"""What is destructive is asked for on a terminal; elsewhere it takes ``--yes``."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from django.utils.translation import gettext as _

from .colours import is_terminal
from .commands._log import printable
from .verbs import Refused


def add_confirmation(parser: ArgumentParser) -> None:
    yes = _("do not ask; needed without a terminal")
    parser.add_argument("--yes", action="store_true", help=yes)


def confirm(options: dict[str, Any], says: Any, counts: Iterable[str]) -> None:
    """Go on only with ``--yes``, or with a yes by somebody at the terminal; else ``Refused``.

    ``says`` is what becomes of each job; ``counts`` how many there are in each table.
    """
    if options["yes"]:
        return
    word = options["verb"]
    if not is_terminal(sys.stdin):
        text = _(
            "%(verb)s asks first, and here is no terminal: nothing was changed. Repeat it with "
            "--yes, or count with --dry-run."
        )
        raise Refused(text % {"verb": word})
    lines = [*counts, str(says), _("Go on? [y/N]") + " "]
    # Not to stdout, which may be for a program.
    sys.stderr.write(printable("\n".join(lines)))
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise Refused(_("nothing was changed"))
