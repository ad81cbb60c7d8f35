"""A hook for gunicorn, to be imported into ``gunicorn.conf.py``."""

from typing import Any

from .command_line import by_import_path
from .process import start_worker


def post_worker_init(_worker: Any) -> None:
    """In each web process, once it has loaded the project; the worker stops as the process ends."""
    start_worker(by_import_path())
