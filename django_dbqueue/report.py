"""What is in the queues at this moment, for the command line and for programs."""

from dataclasses import dataclass, field

from .conf import conf
from .fields import DbNow
from .lifecycle.census import CAP, Census, count_queue, queue_names
from .lifecycle.table import table_of
from .models import Queue, Worker
from .worker.options import all_served


@dataclass
class Report:
    """Counts by queue (up to ``counted_up_to``), paused (table, queue) pairs, living workers."""

    queues: list[Census] = field(default_factory=list)
    paused: list[list[str]] = field(default_factory=list)
    workers: int = 0
    counted_up_to: int = CAP


def take_report(using: str | None = None) -> Report:
    report = Report()
    aliases = set()
    for served in all_served(using):
        table = table_of(served.model, served.using)
        report.queues += [count_queue(table, name) for name in queue_names(table)]
        aliases.add(served.using)
    for alias in sorted(aliases):
        paused = Queue.objects.using(alias).filter(paused_until__gt=DbNow())
        report.paused += [[queue.job_table, queue.name] for queue in paused]
        alive = Worker.objects.using(alias).alive(conf["WORKER_TIMEOUT"])
        # A reaper of its own serves nothing.
        report.workers += sum(bool(worker.serves) for worker in alive)
    return report
