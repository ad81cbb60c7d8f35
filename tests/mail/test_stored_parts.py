"""A ready MIME part is stored byte by byte: nothing in it is taken for the begin of a mail."""

from email.mime.text import MIMEText

from django.core.mail import EmailMessage

from django_dbqueue.mail.storing.codec import decode, encode

TEXT = "Dear all,\n\nFrom now on we are open on Sundays.\n"


def test_a_line_that_begins_with_from_stays_as_it_is():
    message = EmailMessage("Hello", "text", "shop@x.example", ["anna@x.example"])
    message.attach(MIMEText(TEXT))
    [stored] = decode(encode(message)).attachments
    assert stored.get_payload() == TEXT
