"""A small project that uses all of django-dbqueue."""
