"""Every metric that we offer to Prometheus: its name, kind, labels and meaning."""

from dataclasses import dataclass

QUEUE = ("database", "table", "queue")


@dataclass(frozen=True)
class Metric:
    """``kind``: gauge, counter (shown as ``name_total``) or histogram."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


def _known(*metrics: Metric) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


# Of all queue tables of the databases: each process answers the same.
OF_QUEUES = _known(
    Metric("dbqueue_up", "gauge", ("database",), "1 if the database has answered, else 0."),
    Metric(
        *("dbqueue_jobs", "gauge", (*QUEUE, "state")),
        "Jobs in the states ready, claimed, delayed and buried, now or as counted a while ago.",
    ),
    Metric(
        *("dbqueue_jobs_capped", "gauge", ("database", "table", "state")),
        "1 if nobody has counted all jobs in this state: dbqueue_jobs is a lower bound.",
    ),
    Metric(
        *("dbqueue_jobs_counted_age_seconds", "gauge", ("database", "table", "state")),
        "Since the jobs in this state were counted; 0 where that is now.",
    ),
    Metric(
        *("dbqueue_oldest_ready_job_age_seconds", "gauge", QUEUE),
        "Since the oldest ready job was enqueued; 0 where none is ready.",
    ),
    Metric("dbqueue_queue_paused", "gauge", QUEUE, "1 while nothing is claimed from the queue."),
    Metric("dbqueue_queue_workers", "gauge", QUEUE, "Workers that claim from the queue now."),
    Metric(
        *("dbqueue_workers", "gauge", ("database", "state")),
        "Workers that are alive, paused, draining, stopping, or silent (taken for dead).",
    ),
    Metric("dbqueue_jobs_completed", "counter", QUEUE, "Jobs that finished well."),
    Metric("dbqueue_attempts_failed", "counter", QUEUE, "Attempts that failed."),
    Metric("dbqueue_jobs_buried", "counter", QUEUE, "Jobs that workers have given up."),
    Metric("dbqueue_jobs_expired", "counter", QUEUE, "Jobs not run, for they had expired."),
    Metric(
        *("dbqueue_jobs_reaped", "counter", QUEUE),
        "Jobs taken from workers or children that are gone, or over their time to run.",
    ),
    Metric(
        *("dbqueue_claims_lost", "counter", QUEUE),
        "Jobs that ran here, and had another owner by the end: they may run twice.",
    ),
    Metric(
        *("dbqueue_statements_retried", "counter", ("database",)),
        "Workers' statements that the database asked for again: locks, deadlocks.",
    ),
    Metric(
        *("dbqueue_job_wait_seconds", "histogram", QUEUE),
        "From enqueueing to the first claim, delays included; of one job a second and worker.",
    ),
    Metric("dbqueue_job_run_seconds", "histogram", QUEUE, "Of each attempt, failed ones too."),
)

# Of one worker, at its own probe port alone.
OF_WORKER = _known(
    Metric("dbqueue_worker_jobs_started", "counter", (), "Jobs that this worker has started."),
    Metric("dbqueue_worker_running_jobs", "gauge", (), "Jobs that it runs now."),
    Metric("dbqueue_worker_children", "gauge", (), "Processes that it runs jobs in."),
    Metric("dbqueue_worker_memory_bytes", "gauge", (), "Resident memory, children included."),
    Metric("dbqueue_worker_unrecorded_jobs", "gauge", (), "Ended jobs it cannot write for now."),
    Metric("dbqueue_worker_paused", "gauge", (), "1 while it claims nothing, as it was told."),
    Metric("dbqueue_worker_stopping", "gauge", (), "1 once it is told to stop."),
    Metric(
        *("dbqueue_worker_beat_age_seconds", "gauge", ("database",)),
        "Since its last beat that was written.",
    ),
)
