"""Claims jobs from queue tables and runs them."""

import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import connections
from django.utils.translation import gettext as _

from ...checks.schema import missing_migrations
from ...conf import conf
from ...conf.queue_order import QueueOrder, parse_order
from ...dialects import is_of_one_process
from ...monitor.first_steps import advice_for_beginners
from ...texts.wording import said
from ...worker.options import Options, timing
from ...worker.parent import PARENT, take_parent
from ...worker.probe import PortTaken
from ...worker.reload import Reloader
from ...worker.scaling_options import scaling_options
from ...worker.served import Served, UnknownTable, parse_served
from ...worker.session import forget_pools
from ...worker.standalone_reaper import look_after
from ...worker.startup import NotMigrated, Startup, say
from ._log import log_to_stderr
from ._signals import until_signalled
from ._worker_arguments import add_ends, add_manners, add_work

MIGRATIONS_MISSING = 3
CONFIG = "django_dbqueue.management.commands._config"


class Command(BaseCommand):
    # They use the databases too, for which it may have to wait.
    requires_system_checks = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = _(
            "Claim jobs from all queue tables, or from TABLE[@DATABASE][:QUEUE] ..., and run them."
        )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_work(parser)
        add_ends(parser)
        add_manners(parser)

    def configured(self, given: dict[str, Any]) -> dict[str, Any]:
        """With what a file adds; shows where each value comes from and exits, if that is asked."""
        path = given["config"] or os.environ.get("DBQUEUE_CONFIG") or None
        if path is None and not given["show_config"]:
            return given
        config = import_module(CONFIG)  # only a worker that has a file pays for that
        found = config.Configuration(type(self)().create_parser("", "runworker"), given, path)
        if given["show_config"]:
            self.options(found.merged() | {"health_file": None})
            values = found.values()
            text = config.as_text(values)
            if given["json"]:
                text = json.dumps(config.as_json(values), indent=2)
            self.stdout.write(text)
            sys.exit(0)
        merged: dict[str, Any] = found.merged()
        return merged

    def handle(self, *args: Any, **options: Any) -> None:
        options = self.configured(options)
        log_to_stderr(options["verbosity"], as_json=options["json"])
        forget_pools()
        if options["reload"] and PARENT not in os.environ:
            sys.exit(self.reload())
        chosen = self.options(options)
        self.refuse_transaction(chosen)
        start = Startup(chosen, lambda there: self.prepare(there, options))
        if options["once"]:
            start.run_once()
            return
        if any(is_of_one_process(connections[using]) for using in chosen.serves()):
            code = self.started_here(start, chosen)
            if code:
                sys.exit(code)
            return
        code = until_signalled(self, "runworker", lambda: self.started(start))
        if code:
            sys.exit(code)

    def started(self, start: Startup) -> int:
        try:
            return start.run()
        except PortTaken as error:
            raise CommandError(str(error)) from error

    def started_here(self, start: Startup, chosen: Options) -> int:
        if chosen.stop_when_empty is None:
            raise CommandError(
                _(
                    "The database is in memory, where no other process can enqueue anything: give "
                    "a file in NAME, or --stop-when-empty, which runs here what is ready."
                )
            )
        return start.run_here()

    def refuse_transaction(self, chosen: Options) -> None:
        for using in chosen.serves():
            if connections[using].in_atomic_block:
                text = _(
                    "%(database)s is inside atomic(), where nothing can be claimed before the "
                    "commit. In a TestCase use JobTestMixin, or pytest's fixture dbqueue "
                    "(docs/testing.md)."
                )
                raise CommandError(text % {"database": using})

    def prepare(self, chosen: Options, given: dict[str, Any]) -> None:
        # With a server or a reloader, someone may be about to migrate in another terminal.
        if chosen.parent and (commands := missing_migrations(chosen.serves(), chosen.databases())):
            raise NotMigrated(commands)
        if not given["skip_checks"]:
            self.check(databases=chosen.databases())
        stop_without_migrations(chosen.serves(), chosen.databases())
        if settings.DEBUG and given["verbosity"]:
            say(advice_for_beginners(chosen))
        if given.get("once") or chosen.stop_when_empty is not None:
            look_after(chosen)

    def reload(self) -> int:
        if not settings.DEBUG:
            raise CommandError(_("--reload is for development: it needs DEBUG = True"))
        return Reloader().run()

    def options(self, given: dict[str, Any]) -> Options:
        try:
            queue_order = order_of(given["queue_order"])
            tables, using, without = given["tables"], given["database"], given["without"]
            served = parse_served(tables, using, without, queue_order)
        except (UnknownTable, ImproperlyConfigured) as error:
            raise CommandError(said(error)) from error
        if not served:
            raise CommandError(_("No queue table is installed here: add one to INSTALLED_APPS."))
        try:
            if given["health_file"]:
                make_health_file(Path(given["health_file"]))
        except (OSError, ValueError) as error:
            text = _("--health-file cannot be written: %(why)s")
            raise CommandError(text % {"why": said(error)}) from error
        try:
            return self.checked(given | {"queue_order": queue_order}, served)
        except (ValueError, ImproperlyConfigured) as error:
            raise CommandError(str(error)) from error

    def checked(self, given: dict[str, Any], served: tuple[Served, ...]) -> Options:
        return Options(
            served=served,
            queue_order=given["queue_order"],
            processes=chosen(given, "processes").least,
            scaling=scaling_options(chosen(given, "processes").most, given),
            threads=chosen(given, "threads"),
            coroutines=chosen(given, "coroutines"),
            batch_size=chosen(given, "batch_size"),
            batch_grows=given["batch_size"] is None,
            sleep=chosen(given, "sleep"),
            shutdown_timeout=chosen(given, "shutdown_timeout"),
            stop_when_empty=given["stop_when_empty"],
            max_jobs=given["max_jobs"],
            max_time=given["max_time"],
            max_memory=given["max_memory"],
            health_file=given["health_file"] or None,
            force=given["force"],
            name=given["name"] or "",
            rest=given["rest"] or 0.0,
            timeout=given["timeout"],
            probe_port=chosen(given, "probe_port"),
            probe_host=chosen(given, "probe_host"),
            tries=given["tries"],
            backoff=given["backoff"],
            parent=take_parent(),
            **timing(),
        )


def stop_without_migrations(aliases: Iterable[str], receipts: Iterable[str] = ()) -> None:
    if commands := missing_migrations(aliases, receipts):
        say(commands)
        sys.exit(MIGRATIONS_MISSING)


def make_health_file(path: Path) -> None:
    """``OSError`` also where it is no file: it would be old for ever, or never be taken away."""
    path.touch()
    if not path.is_file():
        raise OSError(_("%(path)s is no file") % {"path": path})


def chosen(given: dict[str, Any], name: str) -> Any:
    """The option, or else the setting."""
    return conf.judged(name.upper()) if given[name] is None else given[name]


def order_of(given: QueueOrder | None) -> QueueOrder:
    """The option, or else the setting."""
    if given is not None:
        return given
    return parse_order(conf.judged("QUEUE_ORDER"))
