from typing import Any

from django.apps import AppConfig
from django.utils.translation import gettext_lazy

from .conf import conf


class DBQueueConfig(AppConfig):
    name = "django_dbqueue"
    label = "dbqueue"
    verbose_name: Any = gettext_lazy("Queues")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from .adopt import renamed_tables  # noqa: PLC0415
        from .checks import backends, tables  # noqa: F401, PLC0415
        from .metrics import backlogs, counting, recorder, wait_times, worker_page  # noqa: PLC0415
        from .server.runserver import start_with_runserver  # noqa: PLC0415
        from .texts import labels  # noqa: PLC0415
        from .worker import job_log, job_signals  # noqa: PLC0415

        # What receivers of signals may take long over is counted and logged before.
        subscribers = (recorder, wait_times, counting, backlogs, worker_page, job_log, job_signals)
        for subscriber in subscribers:
            subscriber.subscribe()
        if conf["TRACING"]:
            from .integrations import tracing  # noqa: PLC0415  # an extra

            tracing.subscribe()
        renamed_tables.connect(self)
        labels.connect()
        start_with_runserver()
