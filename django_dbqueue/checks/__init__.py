"""Django's system checks of queue tables, settings and databases."""
