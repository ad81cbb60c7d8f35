"""Colours for people who look; none for programs, nor where somebody wants none."""

import os
from collections.abc import Mapping
from typing import Any

BOLD, RED, GREEN, YELLOW = "1", "31", "32", "33"
CLEAR = "\x1b[H\x1b[J"  # the screen, and not what has scrolled off it


def is_coloured(stream: Any, options: Mapping[str, Any]) -> bool:
    """By Django's ``--no-color`` and ``--force-color``, then NO_COLOR, then whether it is a
    terminal that knows any."""
    if options.get("json") or options.get("no_color"):
        return False
    if options.get("force_color"):
        return True
    return not os.environ.get("NO_COLOR") and is_screen(stream)


def is_terminal(stream: Any) -> bool:
    """None is one that was closed before the start."""
    return stream is not None and bool(stream.isatty())


def is_screen(stream: Any) -> bool:
    """Whether it is a terminal that knows more than lines."""
    return os.environ.get("TERM") != "dumb" and is_terminal(stream)


def painted(text: str, *codes: str) -> str:
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if text else text
