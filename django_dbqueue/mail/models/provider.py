"""What is known by a provider's name for a message, next to the email itself."""

from typing import Any

from django.db import models

from ...fields import DbNow, InstantField

NAME_MAX_CHARS = 255


class ProviderNote(models.Model):
    """Which email it is, where that has several names; or news of one that is none of ours, or
    not recorded yet. Neither is kept for long."""

    name = models.CharField(max_length=NAME_MAX_CHARS, db_index=True)
    email = models.BigIntegerField(null=True, db_index=True)
    address = models.CharField(max_length=320, blank=True)
    news: Any = models.JSONField(null=True)
    created_at = InstantField(db_default=DbNow())

    def __str__(self) -> str:
        return self.name
