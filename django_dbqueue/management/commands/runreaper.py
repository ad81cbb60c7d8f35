"""Reaps without working; optional, since every worker reaps too."""

import sys
from argparse import ArgumentParser
from contextlib import suppress
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db.utils import Error
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...conf import conf
from ...exceptions import first_line
from ...texts.wording import said
from ...worker.done import Done
from ...worker.options import Options, beat_timing
from ...worker.served import all_served
from ...worker.session import forget_pools
from ...worker.standalone_reaper import StandaloneReaper
from ._log import log_to_stderr
from ._signals import until_signalled
from ._types import alias, of_setting
from .runworker import stop_without_migrations


class Command(BaseCommand):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = _(
            "Promote due jobs, give back those of dead workers, archive and prune finished ones."
        )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--once", action="store_true", help=_("one pass, then stop"))
        between = _("seconds between passes; default: REAP_INTERVAL")
        add("--interval", type=of_setting("REAP_INTERVAL"), help=between)
        add("--json", action="store_true", help=_("log one JSON object a line"))
        add("--database", type=alias, help=_("only the queue tables of this database alias"))

    def handle(self, *args: Any, **options: Any) -> None:
        log_to_stderr(options["verbosity"], as_json=options["json"])
        forget_pools()
        served, interval = all_served(options["database"]), options["interval"]
        if not served:
            raise CommandError(_("No queue table is here: nothing has to be looked after."))
        try:
            interval = conf.judged("REAP_INTERVAL") if interval is None else interval
            chosen = Options(served, reap_interval=interval, shutdown_timeout=0, **beat_timing())
        except (ValueError, ImproperlyConfigured) as error:
            raise CommandError(said(error)) from error
        reaper = StandaloneReaper(chosen)
        with suppress(Error):  # of a database that is away: the reaper waits for it
            stop_without_migrations(one.using for one in served)
        if not options["once"]:
            if code := until_signalled(self, "runreaper", reaper.run):
                sys.exit(code)
            return
        try:
            done = reaper.once()
        except Error as error:
            raise CommandError(first_line(error)) from error
        self.stdout.write(told(done))


def told(done: Done) -> str:
    """How many jobs were moved, to people."""
    words = {
        "promoted": ngettext("%(number)s promoted", "%(number)s promoted", done.promoted),
        "reaped": ngettext("%(number)s reaped", "%(number)s reaped", done.reaped),
        "archived": ngettext("%(number)s archived", "%(number)s archived", done.archived),
        "pruned": ngettext("%(number)s pruned", "%(number)s pruned", done.pruned),
        "tidied": ngettext("%(number)s tidied", "%(number)s tidied", done.tidied),
    }
    numbers = {name: getattr(done, name) for name in words}
    parts = [words[name] % {"number": count} for name, count in numbers.items() if count]
    return ", ".join(parts) or _("nothing to do")
