"""Mutants of mail, and of what the admin shows."""

from tests.mutants.mutant import noticed_by

CONNECTIONS, SUPPRESSION = "mail/sending/connections.py", "mail/models/suppression.py"
ADMIN = "admin/base.py"

SPELLING = [
    (
        SUPPRESSION,
        "return str(normal(value)) if isinstance(value, str) else super().get_prep_value(value)",
        "return super().get_prep_value(value)",
        "a suppressed address is looked for as it is spelled",
    ),
]
IDLE = [
    (
        CONNECTIONS,
        "if monotonic() - self.used < IDLE_SECONDS:",
        "if True:",
        "an idle connection is not asked whether it is there",
    ),
    (
        CONNECTIONS,
        "if monotonic() - self.used < IDLE_SECONDS:",
        "if False:",
        "a connection is asked before every message",
    ),
    (
        CONNECTIONS,
        "return bool(noop()[0] == 250)",
        "return False",
        "an idle connection is not used again",
    ),
    (
        CONNECTIONS,
        "return bool(noop()[0] == 250)",
        "return bool(noop())",
        "a connection on which the server says no is used on",
    ),
    (
        CONNECTIONS,
        "    kept.used = monotonic()\n",
        "",
        "a connection is idle from its first message on",
    ),
]
PAGES = [
    (
        ADMIN,
        """format_html('<span title="{}" class="dbqueue-owner">{}</span>', job.owner, short)""",
        """SafeString(f'<span title="{job.owner}" class="dbqueue-owner">{short}</span>')""",
        "an owner is markup in lists",
    ),
    (
        ADMIN,
        """format_html('<span title="{}" class="dbqueue-owner">{}</span>', job.owner, short)""",
        """format_html('<span title="{}">{}</span>', SafeString(job.owner), short)""",
        "an owner is markup in a title",
    ),
    (
        ADMIN,
        """format_html('<span title="{}" class="dbqueue-owner">{}</span>', job.owner, short)""",
        """format_html('<span title="{}">{}</span>', job.owner, SafeString(short))""",
        "a shortened owner is markup",
    ),
]

MUTANTS = [
    *noticed_by("mail/suppressed_by_hand", SPELLING),
    *noticed_by("mail/idle_connections", IDLE),
    *noticed_by("admin/escaping", PAGES),
]
