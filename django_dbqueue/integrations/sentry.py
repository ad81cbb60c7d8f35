"""Errors of jobs for Sentry, each once, with the job that it happened in.

``sentry_sdk.init(..., integrations=[DBQueueIntegration()])``; Sentry's own for Django comes by
itself. Needs the package sentry-sdk. May be imported by the settings.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

from .. import events, signals
from ..events import End
from ..exceptions import Bury, Retry, recorded
from ..guard import raised
from .fence import fenced, nothing

if TYPE_CHECKING:
    from ..lifecycle.table import Table

try:
    import sentry_sdk
    from sentry_sdk.integrations import Integration
    from sentry_sdk.utils import event_from_exception
except ImportError as error:
    message = "this needs the package sentry-sdk: install django-dbqueue[sentry]"
    raise ImproperlyConfigured(message) from error

FLUSH_SECONDS = 2.0
SHOWN_MAX = 100  # jobs of a batch
UID = "dbqueue-sentry"


class DBQueueIntegration(Integration):
    """Each failed attempt is an event; with ``retries=False`` only one after which there is none.

    Each run has a scope of its own, also in threads and coroutines.
    """

    identifier = "dbqueue"

    def __init__(self, *, retries: bool = True) -> None:
        self.retries = retries

    @staticmethod
    def setup_once() -> None:
        events.running.subscribe(running)
        signals.job_reaped.connect(reaped, dispatch_uid=UID)
        signals.worker_stopped.connect(flush, dispatch_uid=UID)


def _integration() -> DBQueueIntegration | None:
    """None where Sentry is off by now, or was initialised again without it."""
    return sentry_sdk.get_client().get_integration(DBQueueIntegration)


def flush(**_: Any) -> None:
    """A child is about to leave without Python's own end, which would send what is left."""
    sentry_sdk.flush(FLUSH_SECONDS)


def running(table: "Table", jobs: Sequence[Any]) -> End:
    """A scope of its own over the run, and an event where it fails."""
    integration = _integration()
    if integration is None:
        return nothing

    def begin() -> End:
        # A run may end in another function than it began in, but never in another context.
        manager = sentry_sdk.isolation_scope()
        scope = manager.__enter__()
        scope.clear_breadcrumbs()
        _describe(scope, table.label, jobs)

        def end(error: BaseException | None) -> None:
            try:
                if error is not None and _is_told(integration, table, jobs, error):
                    _send(raised(recorded(error)))
            finally:
                manager.__exit__(None, None, None)

        return end

    return fenced("Sentry", begin)


def reaped(sender: Any, job: Any, error: str | None, **_: Any) -> None:
    """A job that was stopped, or whose process died, has raised nothing that could be sent."""
    if error is None or _integration() is None:
        return
    with sentry_sdk.isolation_scope() as scope:
        _describe(scope, sender._meta.label_lower, [job])
        sentry_sdk.capture_message(f"{sender._meta.label_lower}: {error}", level="error")
    # The process ends once all is told.
    flush()


def _is_told(
    integration: DBQueueIntegration, table: "Table", jobs: Sequence[Any], error: BaseException
) -> bool:
    from ..lifecycle.claim_end import attempts_max  # noqa: PLC0415  # the settings may import us
    from ..worker.buffer import GivenBack  # noqa: PLC0415

    if isinstance(error, GivenBack) or (isinstance(error, Retry) and error.of is None):
        return False
    is_last = any(job.attempts >= attempts_max(table.policy, job) for job in jobs)
    return integration.retries or is_last or isinstance(error, Bury)


def _describe(scope: Any, label: str, jobs: Sequence[Any]) -> None:
    first = jobs[0]
    scope.set_transaction_name(f"{label}:{first.queue}", source="task")
    known = {"table": label, "queue": first.queue}
    if len(jobs) == 1:
        known |= {"id": str(first.claim_key or first.pk), "attempt": first.attempts}
        if task := getattr(first, "task_path", None):
            known["task"] = task
    for name, value in known.items():
        scope.set_tag(f"dbqueue.{name}", value)
    if len(jobs) > 1:
        known["ids"] = [str(job.claim_key) for job in jobs[:SHOWN_MAX]]
        known["count"] = len(jobs)
    scope.set_context("dbqueue", known)


def _send(error: BaseException) -> None:
    event, hint = event_from_exception(
        error,
        client_options=sentry_sdk.get_client().options,
        mechanism={"type": "dbqueue", "handled": False},
    )
    sentry_sdk.capture_event(event, hint=hint)
