from typing import Any

from django.apps import AppConfig
from django.core.checks import register
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy


class SchedulesConfig(AppConfig):
    name = "django_dbqueue.schedules"
    label = "dbqueue_schedules"
    verbose_name: Any = gettext_lazy("Schedules")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from ..management.verbs import VERBS  # noqa: PLC0415
        from ..worker import background  # noqa: PLC0415
        from . import checks, command, task_target  # noqa: PLC0415
        from .scheduler import Scheduler  # noqa: PLC0415

        task_target.register()
        register(checks.check_declared, "dbqueue")
        VERBS["schedule"] = command.SCHEDULE
        if Scheduler not in background.TABLE_WRITERS:
            background.TABLE_WRITERS.append(Scheduler)
        autodiscover_modules("schedules")
