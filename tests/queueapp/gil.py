"""C code that lets no other thread of its process run Python."""

import ctypes


def hold_gil(seconds: float) -> None:
    """Wait in the C library without giving up the GIL, as ``PyDLL`` calls do not."""
    ctypes.PyDLL(None).poll(None, 0, round(seconds * 1000))
