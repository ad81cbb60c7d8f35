from .email import WORDS, ArchivedEmail, Email, EmailFields
from .mailer import Mailer
from .provider import ProviderNote
from .suppression import Suppression

__all__ = [
    "WORDS",
    "ArchivedEmail",
    "Email",
    "EmailFields",
    "Mailer",
    "ProviderNote",
    "Suppression",
]
