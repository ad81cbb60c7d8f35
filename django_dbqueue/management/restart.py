"""``manage.py dbqueue restart``: workers stop, to be started again with new code."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from ..monitor.worker_list import request_restarts
from .commands._text import asked_text
from .commands._types import alias
from .reporting import VERSION
from .verbs import Verb


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "workers",
        nargs="*",
        metavar="NAME",
        help="a uuid or its beginning, host:pid, or host; default: all that live",
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--database", type=alias, help="only this database alias")


def run(options: dict[str, Any]) -> str:
    asked = request_restarts(options["workers"], options["database"])
    if options["json"]:
        told = {"version": VERSION, "workers": [asdict(one) for one in asked]}
        return json.dumps(told, indent=2)
    return asked_text(asked, "restart") or "no worker lives"


RESTART = Verb("ask workers to stop, and to be started again with new code", add_arguments, run)
