"""Settings of the processes of a torture, and of nothing else.

``DBQUEUE_TORTURE`` holds, as JSON, the scratch database, the folder of the history, the name of
the process, by how many seconds its clock is wrong, and the seed.
"""

import json
import os
from typing import Any

from . import clock

GIVEN: dict[str, Any] = json.loads(os.environ["DBQUEUE_TORTURE"])
if GIVEN["skew"]:
    clock.shift(GIVEN["skew"])

SECRET_KEY = "for-no-request"  # noqa: S105
INSTALLED_APPS = ["django_dbqueue", "django_dbqueue.torture"]
DATABASES: dict[str, Any] = {"default": GIVEN["database"]}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
DEBUG = False

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"dated": {"format": "%(asctime)s %(process)d %(levelname)s %(message)s"}},
    "handlers": {
        "history": {"class": "django_dbqueue.torture.recorder.Recorder"},
        "stderr": {"class": "logging.StreamHandler", "formatter": "dated", "level": "INFO"},
    },
    # Completions are told of at DEBUG only.
    "loggers": {"django_dbqueue": {"handlers": ["history", "stderr"], "level": "DEBUG"}},
}
