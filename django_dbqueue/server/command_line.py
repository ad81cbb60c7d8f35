"""How a web process starts ``runworker``."""

import sys

from django.utils.autoreload import get_child_arguments

# For servers whose own command line says nothing of a manage.py: what they may import, it may.
RUN = """\
import sys
sys.path[:] = {path!r}
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", *sys.argv[1:]])
"""


def by_manage_py(*options: str) -> list[str]:
    """As this process was started by ``manage.py``, or ``python -m django``."""
    own = [str(word) for word in get_child_arguments()]
    return [*own[: len(own) - len(sys.argv[1:])], "runworker", *options]


def by_import_path() -> list[str]:
    warnings = [f"-W{option}" for option in sys.warnoptions]
    return [sys.executable, *warnings, "-c", RUN.format(path=sys.path), "runworker"]
