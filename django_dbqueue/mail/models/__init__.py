from .email import WORDS, ArchivedEmail, Email, EmailFields
from .mailer import Mailer
from .provider import ProviderNote
from .recipient import Recipient
from .suppression import Suppression

__all__ = [
    "WORDS",
    "ArchivedEmail",
    "Email",
    "EmailFields",
    "Mailer",
    "ProviderNote",
    "Recipient",
    "Suppression",
]
