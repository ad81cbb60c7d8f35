"""A project that mails every warning of its queue to its admins, through the queue."""

import django

from testproject.settings import *  # noqa: F403

ADMIN = "refuse-admin@x.example"
ADMINS = [ADMIN if django.VERSION >= (6, 0) else ("Ada", ADMIN)]
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {
        "mail_admins": {"class": "django.utils.log.AdminEmailHandler", "level": "WARNING"},
    },
    "loggers": {"django_dbqueue": {"handlers": ["mail_admins"], "level": "INFO"}},
}
