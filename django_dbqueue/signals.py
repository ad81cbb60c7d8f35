"""Django signals with the lifecycle's nouns: ``sender`` is the queue table, ``job`` the job.

They are sent after the change is written, outside any transaction of ours, by the process that
made it. A receiver that raises is logged and changes nothing. ``job_started`` comes on the job's
thread, the others on the finisher's, where a slow receiver holds up outcomes; what a supervisor or
a reaper has to tell is sent by a process of its own.
"""

from django.dispatch import Signal

#: An attempt begins: ``job``.
job_started = Signal(use_caching=True)
#: It has finished well: ``job``.
job_completed = Signal(use_caching=True)
#: It has failed: ``job``, ``error``, ``retry_in`` (seconds, or None when it is buried).
job_failed = Signal(use_caching=True)
#: The job waits for a person, and no person has buried it: ``job``, ``error``.
job_buried = Signal(use_caching=True)
#: The job was too late to be run: ``job``.
job_expired = Signal(use_caching=True)
#: It made room for another: ``job``, ``error`` (``QueueFull``); sent by the process that enqueued
#: the other one, after its commit.
job_dropped = Signal(use_caching=True)
#: It was taken from its owner: ``job``, ``error`` (why, or None: unharmed).
job_reaped = Signal(use_caching=True)

#: A child begins, before its first job: the sender is ``Worker``.
worker_started = Signal(use_caching=True)
#: A child ends, after its last job: the sender is ``Worker``.
worker_stopped = Signal(use_caching=True)
