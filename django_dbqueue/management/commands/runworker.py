"""Claims jobs from queue tables and runs them."""

import json
import os
import sys
import threading
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
from ...worker.scaling_options import BALANCES, WEIGHTS, scaling_options
from ...worker.served import Served, UnknownTable, parse_served
from ...worker.session import forget_pools
from ...worker.signalling import own_handlers
from ...worker.standalone_reaper import look_after
from ...worker.startup import NotMigrated, Startup, say
from ._log import log_to_stderr
from ._types import alias, of_setting, order, pauses, positive, processes, seconds

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
        if self._called_from_command_line:  # type: ignore[attr-defined]
            sys.exit(self.started(start))
        if threading.current_thread() is not threading.main_thread():
            raise CommandError(_("runworker needs the main thread, which alone gets signals"))
        with own_handlers():
            code = self.started(start)
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


def add_work(parser: ArgumentParser) -> None:
    """What is served, and by how many."""
    add = parser.add_argument
    place = "TABLE[@DATABASE][:QUEUE]"
    add("tables", nargs="*", metavar=place, help=_("default: every queue table"))
    add(
        "--except",
        action="append",
        dest="without",
        metavar="TABLE:QUEUE",
        help=_("leave this queue to other workers; * for any; may be given more than once"),
    )
    add(
        "--queue",
        type=order,
        dest="queue_order",
        metavar="NAME,..",
        help=_("these queues only, in this order, or by weight: a=3,b=1; mail-* for all such"),
    )
    add("--processes", type=processes, help=_("children to run jobs in, or a range: 1-8"))
    add_scaling(parser)
    add("--threads", type=of_setting("THREADS"), help=_("jobs at once in each child"))
    together = _("async jobs at once in each child, next to threads")
    add("--coroutines", type=of_setting("COROUTINES"), help=together)
    batch = _("most jobs a claim; default: as the rate demands")
    add("--batch-size", type=of_setting("BATCH_SIZE"), help=batch)


def add_ends(parser: ArgumentParser) -> None:
    """When it stops by itself."""
    add = parser.add_argument
    add("--once", action="store_true", help=_("run one job, if there is one, and stop"))
    add("--stop-when-empty", action="store_const", const=0.0, help=_("stop when no job is ready"))
    add(
        "--stop-when-empty-for",
        type=seconds,
        dest="stop_when_empty",
        metavar="SECONDS",
        help=_("stop when no job has been ready for so long"),
    )
    add("--max-jobs", type=positive, help=_("exit with 12 after so many jobs"))
    add("--max-time", type=seconds, help=_("exit with 12 after so many seconds"))
    add(
        *("--max-memory", "--memory"),
        type=positive,
        metavar="MB",
        help=_("exit with 12 above, children too"),
    )


def add_manners(parser: ArgumentParser) -> None:
    """What it is called, what it tells, and how it treats jobs."""
    add = parser.add_argument
    add("--name", help=_("what lists and logs call this worker"))
    add("--rest", type=seconds, help=_("pause of each thread after a job, in seconds"))
    add("--timeout", type=positive, help=_("time to run of jobs that have none of their own"))
    add("--health-file", metavar="PATH", help=_("touched once a second while the worker lives"))
    add(
        "--probe-port",
        type=of_setting("PROBE_PORT"),
        metavar="PORT",
        help=_("answer /live, /ready and /metrics here"),
    )
    host = _("where --probe-port listens; default: 127.0.0.1")
    add("--probe-host", type=of_setting("PROBE_HOST"), metavar="HOST", help=host)
    add("--reload", action="store_true", help=_("start again when code changes; with DEBUG only"))
    add("--json", action="store_true", help=_("log one JSON object a line"))
    add("--tries", type=positive, help=_("attempts, whatever the tables' policies say"))
    add("--backoff", type=pauses, help=_("seconds until a retry, one or 10,60,300"))
    add("--delay", type=pauses, dest="backoff", help=_("the same as --backoff"))
    add("--sleep", type=of_setting("SLEEP"), help=_("longest pause when idle"))
    finish = _("seconds for what runs to finish")
    add("--shutdown-timeout", type=of_setting("SHUTDOWN_TIMEOUT"), help=finish)
    add("--force", action="store_true", help=_("work in spite of a pause of everything"))
    add("--config", metavar="PATH", help=_("a TOML file with these options; or DBQUEUE_CONFIG"))
    add("--show-config", action="store_true", help=_("show each value and its source, and exit"))
    add("--skip-checks", action="store_true", help=_("start in spite of what checks say"))
    add("--database", type=alias, help=_("serve the queue tables of this database alias only"))


def add_scaling(parser: ArgumentParser) -> None:
    """What decides within a range of processes, and shares the queues out."""
    add = parser.add_argument
    grow = _("grow while a ready job waits for longer, or all would")
    add("--target-wait", type=of_setting("TARGET_WAIT"), metavar="SECONDS", help=grow)
    add("--balance", choices=BALANCES, help=_("give queues children of their own; default: off"))
    add("--balance-by", choices=WEIGHTS, help=_("by the time to clear, or by the number of jobs"))
    cooldown = of_setting("BALANCE_COOLDOWN")
    add("--balance-cooldown", type=cooldown, metavar="SECONDS", help=_("between two decisions"))
    shift = of_setting("BALANCE_MAX_SHIFT")
    add("--balance-max-shift", type=shift, metavar="N", help=_("most processes a decision moves"))


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
