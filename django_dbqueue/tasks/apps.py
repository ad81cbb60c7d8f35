from typing import Any

from django.apps import AppConfig, apps
from django.utils.translation import gettext_lazy


class TasksConfig(AppConfig):
    name = "django_dbqueue.tasks"
    label = "dbqueue_tasks"
    verbose_name: Any = gettext_lazy("Tasks")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from .. import diagnose  # noqa: PLC0415
        from ..lifecycle.sweep import FailedPruner  # noqa: PLC0415
        from ..management.verbs import VERBS  # noqa: PLC0415
        from ..monitor import overview  # noqa: PLC0415
        from ..worker import reaper  # noqa: PLC0415
        from . import reasons, task_signals  # noqa: PLC0415
        from .conf import task_conf  # noqa: PLC0415
        from .imports.command import IMPORT  # noqa: PLC0415

        task_signals.connect()
        for label in ("dbqueue_tasks.task", "dbqueue_tasks.asynctask"):
            diagnose.REASONS[label] = reasons.reasons
            overview.UNDER_WAY[label] = reasons.under_way
            reaper.MAINTENANCE[label] = FailedPruner(lambda: task_conf["KEEP_FAILED"])
        VERBS["import"] = IMPORT
        if apps.is_installed("django_dbqueue.schedules"):
            from ..schedules.targets import TARGETS  # noqa: PLC0415
            from .scheduled import ScheduledTask  # noqa: PLC0415

            TARGETS["task"] = ScheduledTask()
