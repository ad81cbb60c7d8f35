"""The web server brings a worker along: ``DBQUEUE = {"RUN_WITH_SERVER": True}``."""

from .asgi import with_worker
from .gunicorn import post_worker_init

__all__ = ["post_worker_init", "with_worker"]
