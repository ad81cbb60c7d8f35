from django.apps import AppConfig


class DBQueueConfig(AppConfig):
    name = "django_dbqueue"
    label = "dbqueue"
    verbose_name = "Queues"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import checks, renames  # noqa: F401, PLC0415

        renames.connect(self)
