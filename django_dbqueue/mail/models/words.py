"""The states of emails for people, and what is said of one that has gone."""

from typing import Any

from django.utils.translation import gettext, pgettext_lazy

from ...texts.wording import state_word

# For people; what is not here is called as jobs are.
MAIL_STATES = {
    "unsent": pgettext_lazy("state of an email", "unsent"),
    "sent": pgettext_lazy("state of an email", "sent"),
    "failed": pgettext_lazy("state of an email", "failed"),
    "in doubt": pgettext_lazy("state of an email", "in doubt"),
    "partly sent": pgettext_lazy("state of an email", "partly sent"),
    "redirected": pgettext_lazy("state of an email", "redirected"),
}


def not_there(email: Any) -> str:
    return gettext("%(email)s is not there any more; the archive may have it") % {"email": email}


def word_of(state: str) -> str:
    return str(MAIL_STATES.get(state) or state_word(state))
