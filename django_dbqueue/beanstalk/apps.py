from django.apps import AppConfig

NO_LANES = (
    "no client could watch a lane of a tube; leave it out: it counts as not given, and the whole "
    "tube has the rate"
)


class BeanstalkConfig(AppConfig):
    name = "django_dbqueue.beanstalk"
    label = "dbqueue_beanstalk"
    verbose_name = "Beanstalk"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from .. import diagnose  # noqa: PLC0415
        from ..lifecycle.queue_options import UNFIT  # noqa: PLC0415
        from ..worker import served  # noqa: PLC0415
        from .handlers import tubes_with_handlers  # noqa: PLC0415
        from .reasons import reasons  # noqa: PLC0415

        served.RUNNABLE["dbqueue_beanstalk.tubejob"] = tubes_with_handlers
        diagnose.REASONS["dbqueue_beanstalk.tubejob"] = reasons
        UNFIT["dbqueue_beanstalk.tubejob"] = {"rate_key": NO_LANES}
