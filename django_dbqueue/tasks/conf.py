"""The settings of tasks: keys ``TASK_*`` of ``settings.DBQUEUE``."""

from ..conf import Section
from ..conf.bounds import Range, seconds

BYTES_MAX = 2**30

task_conf = Section(
    "TASK_",
    {
        # Seconds after its end that a task keeps its row, and its result; 0 = for good.
        "KEEP_RESULTS": 14 * 86_400.0,
        "KEEP_FAILED": 0.0,
        # Seconds, where the task says nothing; read when a process starts.
        "TIME_TO_RUN": 3600,
        # Of JSON: all arguments of one task, and what it returns.
        "MAX_BYTES": 1024 * 1024,
        "RESULT_MAX_BYTES": 1024 * 1024,
    },
    bounds={
        "KEEP_RESULTS": seconds(),
        "KEEP_FAILED": seconds(),
        "TIME_TO_RUN": seconds(1),
        "MAX_BYTES": Range(1, BYTES_MAX, "bytes"),
        "RESULT_MAX_BYTES": Range(1, BYTES_MAX, "bytes"),
    },
)
