"""The metrics in Prometheus' words, and a view of them for clients that have the token.

In ``urls.py``: ``path("metrics", metrics_view)``. Needs the package prometheus-client.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db.utils import Error
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from ..models.minute import RAN, SPANS, WAITED
from ..models.total import Total
from ..monitor.access import may_read, outside_transactions, refusal
from ..monitor.worker_list import list_workers
from ..worker.served import Served, all_served
from . import snapshot
from .catalogue import OF_QUEUES, Metric
from .snapshot import TableFigures

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )
    from prometheus_client.exposition import choose_encoder
except ImportError as error:
    message = "metrics need the package prometheus-client: install django-dbqueue[metrics]"
    raise ImproperlyConfigured(message) from error

KINDS: dict[str, Callable[..., Any]] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
}
# By metric, the column of the totals.
COUNTERS = {
    "dbqueue_jobs_completed": "completed",
    "dbqueue_attempts_failed": "failed",
    "dbqueue_jobs_buried": "buried",
    "dbqueue_jobs_expired": "expired",
    "dbqueue_jobs_reaped": "reaped",
    "dbqueue_claims_lost": "lost",
}
WORKER_STATES = ("alive", "paused", "draining", "stopping", "silent")


class Families:
    """The families of metrics that are shown, each with its samples."""

    def __init__(self, catalogue: dict[str, Metric]) -> None:
        self._all = {
            one.name: KINDS[one.kind](one.name, one.text, labels=one.labels)
            for one in catalogue.values()
        }

    def add(self, name: str, labels: Sequence[str], value: float) -> None:
        self._all[name].add_metric(labels, value)

    def add_histogram(self, name: str, labels: Sequence[str], total: Total, kind: str) -> None:
        """``kind``: of the columns, ``waited`` or ``ran``."""
        counts, so_far, buckets = (WAITED if kind == "waited" else RAN), 0, []
        for column, end in zip(counts, (*SPANS, float("inf")), strict=True):
            so_far += getattr(total, column)
            buckets.append(("+Inf" if end == float("inf") else str(end), so_far))
        seconds = getattr(total, f"{kind}_seconds")
        self._all[name].add_metric(labels, buckets=buckets, sum_value=seconds)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all.values())


def queue_families(tables: Iterable[Served] | None = None) -> Families:
    """Of all queue tables, or of some; a database that cannot be asked is not up."""
    families, chosen = Families(OF_QUEUES), list(all_served() if tables is None else tables)
    for alias in sorted({served.using for served in chosen}):
        try:
            workers = list_workers(alias)
            looks = [snapshot.look(one, workers) for one in chosen if one.using == alias]
            retried = snapshot.retried(alias)
        except (Error, ImproperlyConfigured, ImportError):  # the last two: no driver
            families.add("dbqueue_up", [alias], 0)
            continue
        families.add("dbqueue_up", [alias], 1)
        families.add("dbqueue_statements_retried", [alias], retried)
        states = [worker.state for worker in workers]
        for state in WORKER_STATES:
            families.add("dbqueue_workers", [alias, state], states.count(state))
        for table in looks:
            _add_table(families, alias, table)
    return families


def _add_table(families: Families, alias: str, table: TableFigures) -> None:
    for status in snapshot.STATES:
        where = [alias, table.label, str(status.label)]
        whole = table.whole(status)
        families.add("dbqueue_jobs_capped", where, whole.is_at_least)
        families.add("dbqueue_jobs_counted_age_seconds", where, whole.seconds_ago or 0.0)
    for queue, figures in table.queues.items():
        where = [alias, table.label, queue]
        for status, count in figures.counts.items():
            families.add("dbqueue_jobs", [*where, str(status.label)], count.number)
        families.add("dbqueue_oldest_ready_job_age_seconds", where, figures.oldest_seconds)
        families.add("dbqueue_queue_paused", where, figures.is_paused)
        families.add("dbqueue_queue_workers", where, figures.workers)
    for queue, total in table.totals.items():
        where = [alias, table.label, queue]
        for name, column in COUNTERS.items():
            families.add(name, where, getattr(total, column))
        families.add_histogram("dbqueue_job_wait_seconds", where, total, "waited")
        families.add_histogram("dbqueue_job_run_seconds", where, total, "ran")


class _Given:
    """Families that are there already, as a collector."""

    def __init__(self, families: Iterable[Any]) -> None:
        self.families = families

    def collect(self) -> Iterable[Any]:
        return self.families


def encoded(families: Iterable[Any], accept: str = "") -> tuple[bytes, str]:
    """The body of an answer and its content type: the text format, or OpenMetrics where that is
    accepted."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Given(list(families)))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


@outside_transactions
@never_cache
@require_safe
def metrics_view(request: HttpRequest) -> HttpResponse:
    """All metrics of the queues. A client gives ``METRICS_TOKEN`` as a bearer token, or is logged
    in and has the permission ``dbqueue.view_queue``. Each call asks each database some ten
    statements for each queue table, and a few for each queue."""
    if not may_read(request):
        return refusal("metrics")
    body, content_type = encoded(queue_families(), request.headers.get("Accept", ""))
    return HttpResponse(body, content_type=content_type)
