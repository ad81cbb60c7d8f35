"""Queued mail: a queue table whose jobs are messages.

Enqueueing: ``backends``, ``wishes``, ``storing``. Delivering: ``sending``, ``outcomes``,
``limits``. Afterwards: ``deliveries``, ``tracking``, ``resend``, ``privacy``.
"""
