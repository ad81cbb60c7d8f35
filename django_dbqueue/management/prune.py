"""``manage.py dbqueue prune``: old jobs are deleted."""

from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..operate.acting import DELETE, Progress
from ..operate.pruning import prune_ended, prune_its_archive
from ..operate.recording import KEYS_NAMED_MAX
from ..states import Status
from ..worker.served import Served
from .choosing import add_tables, name_of, tables_of
from .confirming import add_confirmation, confirm
from .durations import duration
from .recording import add_user, recorded, user_of
from .reporting import Report
from .verbs import Refused, Verb

Part = tuple[str, Callable[[Progress, Served], None]]
SENTENCES = {
    "failed": gettext_lazy("failed jobs of %(tables)s"),
    "done": gettext_lazy("done and archived jobs of %(tables)s"),
    "both": gettext_lazy("failed and done and archived jobs of %(tables)s"),
}
PARTS = {
    "failed": gettext_lazy("%(table)s, failed"),
    "done": gettext_lazy("%(table)s, done"),
    "archived": gettext_lazy("%(table)s, archived"),
}


def add_arguments(parser: ArgumentParser) -> None:
    add_tables(parser)
    age = "AGE"
    parser.add_argument(
        "--failed",
        type=duration,
        metavar=age,
        help=_("buried jobs that ended so long ago: 24h, 7d"),
    )
    done = _("done jobs, and what is in an archive")
    parser.add_argument("--done", type=duration, metavar=age, help=done)
    dry = _("count only, and change nothing")
    parser.add_argument("--dry-run", action="store_true", help=dry)
    add_user(parser)
    add_confirmation(parser)
    parser.set_defaults(limit=None)


def run(options: dict[str, Any]) -> str:
    parts = list(parts_of(options))
    if not parts:
        raise Refused(_("prune what? Give --failed AGE, --done AGE, or both."))
    tables = tables_of(options)
    if any(served.queue for served in tables):
        raise Refused(_("prune is about whole tables: name no queue."))
    if not options["dry_run"]:
        names = ", ".join(name_of(served, tables) for served in tables)
        confirm(options, DELETE.says, [SENTENCES[asked_of(options)] % {"tables": names}])
    report, user = Report("prune", options), user_of(options)
    with report.told_at_the_end(), recorded(report, user):
        for served in tables:
            for name, prune in parts:
                progress = Progress(DELETE, keeps=KEYS_NAMED_MAX, is_dry=report.is_dry)
                title = PARTS[name] % {"table": name_of(served, tables)}
                report.done.append((title, served, progress))
                prune(progress, served)
    return report.shown()


def asked_of(options: dict[str, Any]) -> str:
    if options["failed"] is not None and options["done"] is not None:
        return "both"
    return "done" if options["failed"] is None else "failed"


def parts_of(options: dict[str, Any]) -> Iterator[Part]:
    failed, done = options["failed"], options["done"]
    if failed is not None:
        yield "failed", lambda on, served: prune_ended(on, served, Status.BURIED, failed)
    if done is not None:
        yield "done", lambda on, served: prune_ended(on, served, Status.DONE, done)
        yield "archived", lambda on, served: prune_its_archive(on, served, done)


PRUNE = Verb(gettext_lazy("delete old jobs: --failed AGE, --done AGE"), add_arguments, run)
