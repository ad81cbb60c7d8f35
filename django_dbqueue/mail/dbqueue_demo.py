"""Example mail; to addresses that nobody can have."""

from typing import Any

from django.core.mail import EmailMultiAlternatives

from ..demo_data import EXAMPLES
from .models import Email

SUBJECTS = ("Your order {}", "Invoice {}", "Parcel {} is on its way", "How was order {}?")
COLUMNS = ("message_id", "subject", "from_email", "recipients", "message")


def example(number: int) -> dict[str, Any]:
    text = f"Dear customer {number},\n\nthank you for your order {number}.\n"
    message = EmailMultiAlternatives(
        SUBJECTS[number % len(SUBJECTS)].format(number),
        text,
        "The Mug Shop <orders@shop.example>",
        [f"customer{number}@customer.example"],
    )
    message.attach_alternative(f"<p>{text}</p>", "text/html")
    email = Email.from_message(message)
    return {name: getattr(email, name) for name in COLUMNS}


EXAMPLES["dbqueue_mail.email"] = example
