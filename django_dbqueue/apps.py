from django.apps import AppConfig


class DBQueueConfig(AppConfig):
    name = "django_dbqueue"
    label = "dbqueue"
    verbose_name = "Queues"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from .adopt import renamed_tables  # noqa: PLC0415
        from .checks import tables  # noqa: F401, PLC0415

        renamed_tables.connect(self)
