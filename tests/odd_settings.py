"""A project whose mailer fails with some messages."""

from testproject.settings import *  # noqa: F403
from testproject.settings import SMTP_HOST, SMTP_PORT
from tests.own_mailer import deliver_by

deliver_by(globals(), "tests.odd.Odd", host=SMTP_HOST, port=SMTP_PORT)
