"""Django signals with the lifecycle's nouns: ``sender`` is the queue table, ``job`` the job.

They are sent after the change is written, outside any transaction of ours, by the process that
made it. A receiver that raises is logged and changes nothing. ``job_started`` comes on the job's
thread, the others on the finisher's, where a slow receiver holds up outcomes; what a supervisor or
a reaper has to tell is sent by a process of its own.
"""

from django.dispatch import Signal

job_started = Signal(use_caching=True)  # job
job_completed = Signal(use_caching=True)  # job
job_failed = Signal(use_caching=True)  # job, error, retry_in: seconds, or None when it is buried
job_buried = Signal(use_caching=True)  # job, error; whatever buried it, but for people
job_expired = Signal(use_caching=True)  # job
# job, error: QueueFull; sent by the process that enqueued another, after its commit
job_dropped = Signal(use_caching=True)
# job, error: why it was taken from its owner, or None: unharmed
job_reaped = Signal(use_caching=True)

worker_started = Signal(use_caching=True)  # sender: Worker; in every child, before its first job
worker_stopped = Signal(use_caching=True)  # sender: Worker; in every child, after its last job
