"""django-dbqueue, as it is measured next to pgqueuer: see benchmarks/beside_pgqueuer.py."""

from benchmarks.adapters import dbqueue
from benchmarks.django_project import Mode

COROUTINES = ("--coroutines", "1000", "--batch-size", "250")


class Adapter(dbqueue.Adapter):
    modes = {
        "default": Mode(("runworker",)),
        "naps": Mode(("runworker", "noop.AsyncNap", *COROUTINES, "-v", "0")),
    }

    def __init__(self, mode: str) -> None:
        super().__init__(mode)
        if mode == "naps":
            self.model = "noop.AsyncNap"
