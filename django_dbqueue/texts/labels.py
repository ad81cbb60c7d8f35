"""What models and their columns are called, in the language of the person who reads it.

Set once all models are there, and not in their classes: what a class says of that goes into the
migrations of projects that have queue tables.
"""

from collections.abc import Iterable
from typing import Any

from django.apps import apps
from django.db.models import Model
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from ..models import KeyColumns, Traced
from ..models.columns import JobColumns

OURS = "django_dbqueue."
# By label, one and several.
MODELS = {
    "dbqueue.queue": (_("queue"), _("queues")),
    "dbqueue.worker": (_("worker"), _("workers")),
    "dbqueue_mail.email": (_("email"), _("emails")),
    "dbqueue_mail.archivedemail": (_("archived email"), _("archived emails")),
    "dbqueue_mail.mailer": (_("mailer"), _("mailers")),
    "dbqueue_mail.suppression": (_("suppressed address"), _("suppressed addresses")),
    "dbqueue_tasks.task": (_("task"), _("tasks")),
    "dbqueue_tasks.asynctask": (_("async task"), _("async tasks")),
    "dbqueue_schedules.schedule": (_("schedule"), _("schedules")),
    "dbqueue_bulk.bulkaction": (_("bulk action"), _("bulk actions")),
    "dbqueue_beanstalk.tubejob": (_("tube job"), _("tube jobs")),
}
# Of the columns that queue tables and archives share: those of projects, too.
SHARED = {
    "queue": _("queue"),
    "priority": _("priority"),
    "status": _("status"),
    "owner": _("owner"),
    "dequeued_time": _("dequeued time"),
    "retry_at": _("retry at"),
    "attempts": _("attempts"),
    "crashes": _("crashes"),
    "losses": _("losses"),
    "time_to_run": _("time to run"),
    "created_at": _("created at"),
    "finished_at": _("finished at"),
    "expires_at": _("expires at"),
    "errors": _("errors"),
    "failure": _("failure"),
    "failed_at": _("failed at"),
    "dedup_key": _("dedup key"),
    "concurrency_key": _("concurrency key"),
    "concurrency_limit": _("concurrency limit"),
    "key_order": _("key order"),
    "trace_context": _("trace context"),
}
# Of models of our own.
OWN = {
    "address": _("address"),
    "reason": _("reason"),
    "note": _("note"),
    "name": pgettext_lazy("of a thing", "name"),
    "paused_until": _("paused until"),
    "pause_reason": _("pause reason"),
    "subject": _("subject"),
    "recipients": _("recipients"),
    "message": _("message"),
    "deliveries": _("deliveries"),
    "about": pgettext_lazy("an email that a report is about", "about"),
    "resend_of": _("resend of"),
    "uuid": _("uuid"),
    "started_at": _("started at"),
    "beat_at": _("beat at"),
    "timing": _("timing"),
    "time_zone": _("time zone"),
    "starts_at": _("starts at"),
    "target": _("target"),
    "arguments": _("arguments"),
    "catch_up_within": _("catch up within"),
    "next_tick": _("next tick"),
    "backend": _("backend"),
    "args": _("args"),
    "kwargs": _("kwargs"),
    "run_after": _("run after"),
    "max_attempts": _("max attempts"),
    "overdue_pauses": _("overdue pauses"),
    "progress": _("progress"),
    "return_value": _("return value"),
    "takes_context": _("takes context"),
    "min_version": _("min version"),
    "body": _("body"),
    "delay": _("delay"),
    "ttr": _("ttr"),
    "burial": _("burial"),
    "reserves": _("reserves"),
    "timeouts": _("timeouts"),
    "releases": _("releases"),
    "buries": _("buries"),
    "kicks": _("kicks"),
    "database": _("database"),
    "asked_by_name": _("asked by"),
}


def connect() -> None:
    """All models are there by now, though other apps may not be ready."""
    for model in apps.get_models():
        label(model)


def label(model: type[Model]) -> None:
    """Those of our own, and of projects the columns that they inherit and give no name."""
    is_ours = model.__module__.startswith(OURS)
    if is_ours and model._meta.label_lower in MODELS:
        one, several = MODELS[model._meta.label_lower]
        model._meta.verbose_name, model._meta.verbose_name_plural = one, several
    shared = {field.name for field in _inherited(model)}
    for field in model._meta.local_fields:
        word = SHARED.get(field.name) if field.name in shared else None
        if word is None and is_ours:
            word = OWN.get(field.name)
        # What a class says itself stays.
        if word is not None and vars(field)["_verbose_name"] is None:
            field.verbose_name = word


def _inherited(model: type[Model]) -> Iterable[Any]:
    for base in (JobColumns, KeyColumns, Traced):
        if issubclass(model, base):
            yield from base._meta.local_fields
