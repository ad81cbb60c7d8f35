from django.apps import AppConfig


class BeanstalkConfig(AppConfig):
    name = "django_dbqueue.beanstalk"
    label = "dbqueue_beanstalk"
    verbose_name = "Beanstalk"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from ..worker import served  # noqa: PLC0415
        from .handlers import tubes_with_handlers  # noqa: PLC0415

        served.RUNNABLE["dbqueue_beanstalk.tubejob"] = tubes_with_handlers
