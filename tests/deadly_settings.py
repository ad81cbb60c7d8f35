"""A project whose mailer kills who uses it, and whose admins are told of it by that very mailer."""

from tests.reporting_settings import *  # noqa: F403

DYING = "tests.dying.EmailBackend"
if "MAILERS" in globals():
    MAILERS["smtp"] = {"BACKEND": DYING}  # noqa: F405
else:
    DBQUEUE = {**globals().get("DBQUEUE", {}), "MAIL_DELIVERY_BACKEND": DYING}
