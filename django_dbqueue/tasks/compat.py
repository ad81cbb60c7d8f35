"""Django's own tasks, from 6.0 on, or those of the package django-tasks."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from django.core.exceptions import ImproperlyConfigured

NAME = "django.tasks" if find_spec("django.tasks") else "django_tasks"

try:
    framework: Any = import_module(NAME)
except ModuleNotFoundError as error:
    raise ImproperlyConfigured(
        "django_dbqueue.tasks needs Django 6.0, or the package django-tasks: "
        "pip install 'django-dbqueue[tasks]'"
    ) from error

base: Any = import_module(f"{NAME}.base")
backends: Any = import_module(f"{NAME}.backends.base")
dummy: Any = import_module(f"{NAME}.backends.dummy")
immediate: Any = import_module(f"{NAME}.backends.immediate")
exceptions: Any = import_module(f"{NAME}.exceptions")
signals: Any = import_module(f"{NAME}.signals")
normalize_json: Any = import_module(
    "django.utils.json" if NAME == "django.tasks" else "django_tasks.utils"
).normalize_json

Task: Any = base.Task
TaskContext: Any = base.TaskContext
TaskError: Any = base.TaskError
TaskResult: Any = base.TaskResult
TaskResultStatus: Any = base.TaskResultStatus
task_backends: Any = framework.task_backends

InvalidTask: type[Exception] = (
    getattr(exceptions, "InvalidTask", None) or exceptions.InvalidTaskError
)
InvalidTaskBackend: type[Exception] = (
    getattr(exceptions, "InvalidTaskBackend", None) or exceptions.InvalidTaskBackendError
)
TaskResultDoesNotExist: type[Exception] = exceptions.TaskResultDoesNotExist
