"""Why a job is not running, in words."""

from .job import Explanation, UnknownJob, explain, explain_archived
from .reasons import REASONS

__all__ = ["REASONS", "Explanation", "UnknownJob", "explain", "explain_archived"]
