from typing import Any

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class BulkConfig(AppConfig):
    name = "django_dbqueue.bulk"
    label = "dbqueue_bulk"
    verbose_name: Any = gettext_lazy("Bulk actions")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from .. import diagnose  # noqa: PLC0415
        from ..monitor import overview  # noqa: PLC0415
        from . import words  # noqa: PLC0415

        diagnose.REASONS["dbqueue_bulk.bulkaction"] = words.reasons
        overview.UNDER_WAY["dbqueue_bulk.bulkaction"] = words.under_way
