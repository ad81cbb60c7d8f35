"""``manage.py runserver`` brings a worker along, whichever app the command is of."""

import os
import sys
from argparse import ArgumentParser

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.autoreload import DJANGO_AUTORELOAD_ENV

from .command_line import by_manage_py
from .process import start_worker


def start_with_runserver() -> None:
    """Start a worker if this process is the one that serves, with ``DEBUG``; else do nothing.

    It looks at the command line, since apps have runservers of their own, and Django tells nobody
    when one begins.
    """
    if sys.argv[1:2] != ["runserver"] or not settings.DEBUG:
        return
    parser = ArgumentParser(add_help=False)
    parser.add_argument("--noreload", action="store_true")
    parser.add_argument("--pythonpath")
    options, _ = parser.parse_known_args(sys.argv[2:])
    if not options.noreload and os.environ.get(DJANGO_AUTORELOAD_ENV) != "true":
        return  # the autoreloader's own process, which serves nothing
    path = [f"--pythonpath={options.pythonpath}"] if options.pythonpath else []
    try:
        start_worker(by_manage_py(*path))
    except ImproperlyConfigured:
        pass  # runserver's own checks say it better
