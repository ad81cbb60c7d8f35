"""Why a job is not running, in words."""

from .explain import Explanation, UnknownJob, explain, explain_archived
from .reasons import REASONS

__all__ = ["REASONS", "Explanation", "UnknownJob", "explain", "explain_archived"]
