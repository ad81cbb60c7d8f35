from django.apps import AppConfig
from django.core.checks import register


class MailConfig(AppConfig):
    name = "django_dbqueue.mail"
    label = "dbqueue_mail"
    verbose_name = "Queued mail"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from .. import reaper  # noqa: PLC0415
        from . import checks, keep  # noqa: PLC0415

        register(checks.check_delivery, "mail")
        reaper.CHORES["dbqueue_mail.email"] = keep.Eraser()
