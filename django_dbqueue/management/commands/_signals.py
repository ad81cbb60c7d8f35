"""Commands that last until a signal ends them, for a shell and for code that calls them."""

import threading
from collections.abc import Callable

from django.core.management import BaseCommand, CommandError
from django.utils.translation import gettext as _

from ...worker.signalling import own_handlers


def until_signalled(command: BaseCommand, name: str, run: Callable[[], int]) -> int:
    """The exit code; code that calls the command has its own handlers of signals afterwards."""
    if command._called_from_command_line:  # type: ignore[attr-defined]
        return run()
    if threading.current_thread() is not threading.main_thread():
        text = _("%(command)s needs the main thread, which alone gets signals")
        raise CommandError(text % {"command": name})
    with own_handlers():
        return run()
