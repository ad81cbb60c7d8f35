"""The verbs of ``manage.py dbqueue`` that change something, or watch: one table of them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.core.exceptions import ValidationError

from ..texts.wording import said
from . import acts
from .commands._log import printable
from .failed import FAILED
from .failures import FAILURES
from .monitor import MONITOR
from .pause import PAUSE, RESUME
from .prune import PRUNE
from .restart import RESTART
from .status import STATUS
from .top import TOP
from .verbs import Refused, Verb


def _refusing(run: Callable[[dict[str, Any]], str]) -> Callable[[dict[str, Any]], str]:
    """Bad values are refused by the exit code of bad options."""

    def run_or_refuse(options: dict[str, Any]) -> str:
        try:
            return run(options)
        except ValidationError as error:
            raise Refused(printable(" ".join(error.messages))) from error
        except ValueError as error:
            raise Refused(printable(said(error))) from error

    return run_or_refuse


ALL = (
    {"status": STATUS}
    | acts.VERBS
    | {
        "prune": PRUNE,
        "failed": FAILED,
        "failures": FAILURES,
        "pause": PAUSE,
        "resume": RESUME,
        "restart": RESTART,
        "top": TOP,
        "monitor": MONITOR,
    }
)
OPERATING: dict[str, Verb] = {
    word: replace(verb, run=_refusing(verb.run)) for word, verb in ALL.items()
}
