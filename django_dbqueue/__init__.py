"""Queues in the database tables that a Django project already has."""

__version__ = "0.1.0"
