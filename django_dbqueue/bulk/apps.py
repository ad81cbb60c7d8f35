from typing import Any

from django.apps import AppConfig, apps
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
        if apps.is_installed("django.contrib.admin"):
            from ..admin.as_job import AS_JOB  # noqa: PLC0415
            from .asking import AsBulkAction  # noqa: PLC0415

            AS_JOB[:] = [AsBulkAction()]
        overview.UNDER_WAY["dbqueue_bulk.bulkaction"] = words.under_way
