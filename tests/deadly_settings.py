"""A project whose mailer kills who uses it, and whose admins are told of it by that very mailer."""

from tests.own_mailer import deliver_by
from tests.reporting_settings import *  # noqa: F403

deliver_by(globals(), "tests.dying.EmailBackend")
