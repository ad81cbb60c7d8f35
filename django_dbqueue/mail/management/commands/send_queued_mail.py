"""Works off the mail that is due, and ends: for cron."""

from argparse import ArgumentParser
from typing import Any

from django.utils.translation import gettext as _

from ....conf.queue_order import IN_TURN
from ....management.commands._log import printable
from ....management.commands._types import of_setting, processes, seconds
from ....management.commands.runworker import Command as RunWorker
from ...models import Email
from ...sending.dry_run import DryRun

# What runworker offers, too.
FIXED: dict[str, Any] = {
    "tables": [Email._meta.label],
    "stop_when_empty": 0.0,
    "queue_order": IN_TURN,
    **dict.fromkeys(("once", "reload", "coroutines", "force")),
    **dict.fromkeys(("batch_size", "max_jobs", "max_memory", "health_file", "tries", "backoff")),
    **dict.fromkeys(("sleep", "database", "without", "name", "rest", "timeout")),
    "probe_port": 0,
    "probe_host": None,
}


class Command(RunWorker):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = _("Send the mail that is due, and stop; the exit codes are those of runworker.")

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--dry-run", action="store_true", help=_("tell what would be sent; change nothing"))
        add("--processes", type=processes, help=_("children to send in, or a range: 1-8"))
        add("--threads", type=of_setting("THREADS"), help=_("messages at once in each child"))
        add("--max-time", type=seconds, help=_("exit with 12 after so many seconds"))
        finish = _("seconds for what runs to finish")
        add("--shutdown-timeout", type=of_setting("SHUTDOWN_TIMEOUT"), help=finish)
        add("--json", action="store_true", help=_("log one JSON object a line"))
        add("--skip-checks", action="store_true", help=_("start in spite of what checks say"))

    def configured(self, given: dict[str, Any]) -> dict[str, Any]:
        """What a file says is for workers."""
        return given

    def handle(self, *args: Any, **options: Any) -> None:
        if options["dry_run"]:
            self.tell()
        else:
            super().handle(*args, **FIXED | options)

    def tell(self) -> None:
        dry_run = DryRun()
        for line in dry_run.lines():
            self.stdout.write(printable(line))
        self.stdout.write(dry_run.summary())
