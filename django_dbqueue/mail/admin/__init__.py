"""Queued mail in the admin: what waits, what was sent, what failed and why."""

from .emails import ArchivedEmailAdmin, EmailAdmin
from .mailers import MailerAdmin
from .suppressions import SuppressionAdmin

__all__ = ["ArchivedEmailAdmin", "EmailAdmin", "MailerAdmin", "SuppressionAdmin"]
