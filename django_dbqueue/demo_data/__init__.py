"""Example jobs, so that no page of the admin is empty on first sight."""

from .fill import EXAMPLES, Filled, TooMany, fill, remove

__all__ = ["EXAMPLES", "Filled", "TooMany", "fill", "remove"]
