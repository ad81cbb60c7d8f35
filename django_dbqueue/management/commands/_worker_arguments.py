"""The options of runworker, in the order in which its help lists them."""

from argparse import ArgumentParser

from django.utils.translation import gettext as _

from ...worker.scaling_options import BALANCES, WEIGHTS
from ._types import alias, of_setting, order, pauses, positive, processes, seconds


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
