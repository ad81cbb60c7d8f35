"""A project whose mailer fails with some messages."""

from testproject.settings import *  # noqa: F403
from testproject.settings import SMTP_HOST, SMTP_PORT
from tests.kit.mailer_environment import deliver_by

deliver_by(globals(), "tests.kit.odd_mailer.Odd", host=SMTP_HOST, port=SMTP_PORT)
