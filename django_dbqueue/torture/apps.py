from django.apps import AppConfig


class TortureConfig(AppConfig):
    name = "django_dbqueue.torture"
    label = "dbqueue_torture"
    verbose_name = "Torture"
    default_auto_field = "django.db.models.BigAutoField"
