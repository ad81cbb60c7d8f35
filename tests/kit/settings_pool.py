"""The test project with Django's connection pool."""

from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES

DATABASES["default"]["OPTIONS"]["pool"] = True
DATABASES["default"]["CONN_MAX_AGE"] = 0
