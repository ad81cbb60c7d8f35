"""Queued mail: a queue table whose jobs are messages.

The way of one: ``backends``, ``models.email``, ``headers`` and ``storing`` enqueue it;
``models.email``, ``sending.send``, ``sending.envelope`` and ``sending.connections`` deliver it;
``outcomes``, ``deliveries``, ``limits`` say what becomes of it. Afterwards: ``tracking``,
``in_doubt``, ``privacy``.
"""
