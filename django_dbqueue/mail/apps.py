from django.apps import AppConfig, apps
from django.core.checks import register


class MailConfig(AppConfig):
    name = "django_dbqueue.mail"
    label = "dbqueue_mail"
    verbose_name = "Queued mail"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from .. import reaper  # noqa: PLC0415
        from . import checks, checks_settings  # noqa: PLC0415
        from .privacy.erase import Eraser  # noqa: PLC0415

        register(checks.check_delivery, "mail")
        register(checks_settings.check_settings, "mail")
        register(checks_settings.check_for_production, "mail", deploy=True)
        reaper.CHORES["dbqueue_mail.email"] = Eraser()
        if apps.is_installed("anymail"):
            _listen_to_providers()


def _listen_to_providers() -> None:
    from anymail.signals import tracking as events  # noqa: PLC0415

    from . import tracking  # noqa: PLC0415

    events.connect(tracking.receive, dispatch_uid="dbqueue_mail")
