"""Jobs at times: cron expressions and intervals, each tick enqueued exactly once."""

from .declared import schedule

__all__ = ["schedule"]
