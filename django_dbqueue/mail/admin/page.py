"""What the page of one email shows next to its columns."""

from dataclasses import dataclass
from email.utils import getaddresses
from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from ...admin.job_page import VALUED
from ...states import Status
from ..deliveries import Deliveries, Outcome, address_of
from ..models import ArchivedEmail, Email
from ..models.email import read
from ..rows import HAVE_ENDED
from .preview import contents

TABLES = (Email, ArchivedEmail)
LINKS_MAX = 20
COLUMNS = (
    *("mail_state", "subject_line", "from_email", "message_id", "mailer", "provider_id"),
    *("queue", "priority", "attempts", "crashes", "created_at", "finished_at", "due"),
    *("expires_at", "owner", "dequeued_time"),
)
# The states in which an action makes sense.
BUTTONS = {
    "resend_selected": (gettext_lazy("Send again"), HAVE_ENDED),
    "kick_selected": (pgettext_lazy("action", "Retry"), (Status.DELAYED, Status.BURIED)),
    **VALUED,
    "settle_selected": (gettext_lazy("Mark as sent"), (Status.BURIED,)),
    "bury_selected": (
        gettext_lazy("Mark as failed"),
        (Status.READY, Status.CLAIMED, Status.DELAYED),
    ),
    "release_selected": (pgettext_lazy("action", "Release"), (Status.CLAIMED,)),
    "forget_selected": (gettext_lazy("Erase message"), HAVE_ENDED),
    "cancel_selected": (pgettext_lazy("action", "Cancel"), tuple(Status)),
}
OUTCOMES = {
    Outcome.DELIVERED: pgettext_lazy("outcome of a delivery", "delivered"),
    Outcome.REDIRECTED: pgettext_lazy("outcome of a delivery", "redirected"),
    Outcome.DEFERRED: pgettext_lazy("outcome of a delivery", "deferred"),
    Outcome.REFUSED: pgettext_lazy("outcome of a delivery", "refused"),
    Outcome.IN_DOUBT: pgettext_lazy("outcome of a delivery", "in doubt"),
    Outcome.SUPPRESSED: pgettext_lazy("outcome of a delivery", "suppressed"),
    Outcome.NOT_ALLOWED: pgettext_lazy("outcome of a delivery", "not allowed"),
}


@dataclass(frozen=True)
class Recipient:
    address: str
    outcome: str
    code: int | None
    text: str
    at: Any


@dataclass(frozen=True)
class Link:
    relation: str
    name: str
    url: str | None


def named(email: Any) -> str:
    """For people; its ``str()`` is for the log, too."""
    return f"{email._meta.verbose_name} {email.pk}"


def shown_subject(email: Any) -> str:
    return email.subject or (_("(erased)") if email.is_erased else _("(no subject)"))


def recipients(email: Any, may_inspect: bool) -> list[Recipient]:
    """Everybody it is for, with what is known of each; names next to addresses are left out,
    and what a server said is only shown to people who may inspect emails."""
    deliveries = Deliveries(email.deliveries)
    known, doubtful = deliveries.by_address, deliveries.doubtful() if email.is_in_doubt else {}
    named = [address_of(bare) for _name, bare in getaddresses([email.recipients]) if bare]
    found = []
    for address in dict.fromkeys([*named, *known]):
        if one := known.get(address):
            text = one.text if may_inspect else ""
            outcome = Outcome.IN_DOUBT if address in doubtful else one.outcome
            word = str(OUTCOMES[outcome])
            found.append(Recipient(address, word, one.code, text, _moment(one.at)))
        else:
            found.append(Recipient(address, _("nothing known yet"), None, "", ""))
    return found


def links(email: Any, site: AdminSite) -> list[Link]:
    """To the emails that it resends, that resend it, and whose delivery it reports on."""
    wanted = {_("Resends"): email.resend_of, _("Is about"): email.about}
    pks = [pk for pk in wanted.values() if pk is not None]
    found: dict[int, Any] = {}
    for model in TABLES if pks else ():
        rows = model._default_manager.filter(pk__in=pks)
        found |= dict.fromkeys(rows.values_list("pk", flat=True), model)
    back = [_link(site, what, pk, found.get(pk)) for what, pk in wanted.items() if pk is not None]
    again = [
        _link(site, _("Sent again as"), pk, model)
        for model in TABLES
        for pk in model._default_manager.filter(resend_of=email.pk)
        .order_by("pk")
        .values_list("pk", flat=True)[:LINKS_MAX]
    ]
    return back + again


def message_of(email: Any, site: AdminSite) -> dict[str, Any]:
    """The contents, or the problem with them, and where they are served."""
    try:
        found = contents(read(email))
    except ValueError as error:
        return {"problem": str(error)}
    return {
        "contents": found,
        "preview_url": _url(site, type(email), "preview", email.pk),
        "eml_url": _url(site, type(email), "eml", email.pk),
    }


def _link(site: AdminSite, relation: str, pk: int, model: Any) -> Link:
    if model is None:
        return Link(relation, _("email %(key)s, which is not there any more") % {"key": pk}, None)
    is_shown = site.is_registered(model)
    url = _url(site, model, "change", pk) if is_shown else None
    return Link(relation, f"{model._meta.verbose_name} {pk}", url)


def _url(site: AdminSite, model: Any, page: str, pk: int) -> str:
    meta = model._meta
    name = f"admin:{meta.app_label}_{meta.model_name}_{page}"
    return reverse(name, args=[pk], current_app=site.name)


def _moment(text: Any) -> Any:
    """In the project's time zone, for the template to print; what is no time stays what it is."""
    try:
        moment = parse_datetime(text)
    except (TypeError, ValueError):
        return text
    if moment is None or timezone.is_naive(moment) or settings.USE_TZ:
        return moment or text
    return timezone.make_naive(moment, timezone.get_default_timezone())
