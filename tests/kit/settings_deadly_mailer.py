"""A project whose mailer kills who uses it, and whose admins are told of it by that very mailer."""

from tests.kit.mailer_environment import deliver_by
from tests.kit.settings_mail_reports import *  # noqa: F403

deliver_by(globals(), "tests.kit.dying_mailer.EmailBackend")
