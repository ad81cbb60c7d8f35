"""Django signals with the lifecycle's nouns: ``sender`` is the queue table, ``job`` the job.

They are sent after the change is written, outside any transaction of ours, by the process that
made it. A receiver that raises is logged and changes nothing.
"""

from django.dispatch import Signal

job_started = Signal()
job_completed = Signal()
job_failed = Signal()
