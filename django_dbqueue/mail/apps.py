from collections.abc import Callable
from typing import Any

from django.apps import AppConfig, apps
from django.core.checks import register
from django.utils.translation import gettext_lazy


class MailConfig(AppConfig):
    name = "django_dbqueue.mail"
    label = "dbqueue_mail"
    verbose_name: Any = gettext_lazy("Queued mail")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from .. import diagnose, signals  # noqa: PLC0415
        from ..lifecycle.sweep import FailedPruner  # noqa: PLC0415
        from ..worker import reaper  # noqa: PLC0415
        from . import bulk_verbs, checks, reasons, tracking  # noqa: PLC0415
        from .conf import mail_conf  # noqa: PLC0415
        from .privacy.erase import Eraser  # noqa: PLC0415
        from .sending.connections import close_idle_connections  # noqa: PLC0415

        signals.worker_stopped.connect(close_idle_connections, dispatch_uid="dbqueue_mail")

        bulk_verbs.register()
        register(checks.check_delivery, "mail")
        register(checks.check_settings, "mail")
        register(checks.check_for_production, "mail", deploy=True)
        failed = FailedPruner(lambda: mail_conf["KEEP_ROWS"])
        hooks: list[Callable[[Any], int]] = [Eraser(), failed]
        if apps.is_installed("anymail"):
            from anymail.signals import tracking as events  # noqa: PLC0415

            events.connect(tracking.receive, dispatch_uid="dbqueue_mail")
            hooks.append(tracking.LateEvents())
        diagnose.REASONS["dbqueue_mail.email"] = reasons.reasons
        reaper.MAINTENANCE["dbqueue_mail.email"] = lambda table: sum(one(table) for one in hooks)
