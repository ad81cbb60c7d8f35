"""Times on the command line: ``90``, ``10m``, ``1h30m``, ``7d``."""

import re
from argparse import ArgumentTypeError

from django.utils.translation import gettext as _

from ..lifecycle.policy import MAX_SECONDS

UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
PART = re.compile(r"(\d+(?:\.\d+)?)(min|[smhdw])")


def duration(text: str) -> float:
    """Seconds; a number without a unit is one of seconds."""
    parts = PART.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        found = sum(float(number) * UNITS[unit] for number, unit in parts)
    else:
        try:
            found = float(text)
        except ValueError:
            found = -1.0
    if not 0 <= found <= MAX_SECONDS:
        why = _("%(given)s is no time such as 90, 10m, 1h30m or 7d, of at most ten years")
        raise ArgumentTypeError(why % {"given": repr(text)})
    return found
