from collections.abc import Callable
from typing import Any

from django.apps import AppConfig, apps
from django.core.checks import register


class MailConfig(AppConfig):
    name = "django_dbqueue.mail"
    label = "dbqueue_mail"
    verbose_name = "Queued mail"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from .. import explain, reaper, signals  # noqa: PLC0415
        from . import checks, checks_settings, latecomers, new_lines, reasons  # noqa: PLC0415
        from .privacy.erase import Eraser, FailedMailPruner  # noqa: PLC0415
        from .sending.connections import close_idle_connections  # noqa: PLC0415

        signals.worker_stopped.connect(close_idle_connections, dispatch_uid="dbqueue_mail")

        register(checks.check_delivery, "mail")
        register(checks_settings.check_settings, "mail")
        register(checks_settings.check_for_production, "mail", deploy=True)
        chores: list[Callable[[Any], int]] = [Eraser(), FailedMailPruner(), new_lines.NewLines()]
        if apps.is_installed("anymail"):
            _listen_to_providers()
            chores.append(latecomers.Latecomers())
        explain.REASONS["dbqueue_mail.email"] = reasons.reasons
        reaper.CHORES["dbqueue_mail.email"] = lambda table: sum(one(table) for one in chores)


def _listen_to_providers() -> None:
    from anymail.signals import tracking as events  # noqa: PLC0415

    from . import tracking  # noqa: PLC0415

    events.connect(tracking.receive, dispatch_uid="dbqueue_mail")
