"""What the tests of mail in the admin share: its pages, and mail to see there."""

from email.mime.image import MIMEImage
from types import SimpleNamespace
from typing import Any

from django.core.mail import EmailMultiAlternatives

from django_dbqueue.mail.models import Email
from tests.kit.mail import archived, finished, queued

LIST = "/admin/dbqueue_mail/email/"
ARCHIVE = "/admin/dbqueue_mail/archivedemail/"
MAILERS = "/admin/dbqueue_mail/mailer/"
SUPPRESSIONS = "/admin/dbqueue_mail/suppression/"
ACTIONS = {
    "resend_selected": "resend",
    "kick_selected": "retry",
    "bury_selected": "bury",
    "forget_selected": "forget",
}
PNG = b"\x89PNG\r\n"


def page_of(email: Any) -> str:
    return f"/admin/dbqueue_mail/{email._meta.model_name}/{email.pk}/change/"


def text_of(response: Any) -> str:
    assert response.status_code == 200
    return str(response.content.decode())


def act(browser: Any, action: str, *emails: Any, url: str = LIST, **more: Any) -> str:
    data = {"action": action, "_selected_action": [e.pk for e in emails], **more}
    return text_of(browser.post(url, data, follow=True))


def states() -> list[str]:
    return [email.mail_state for email in Email.objects.order_by("pk")]


def in_every_state() -> SimpleNamespace:
    sent, failed = finished(), finished(failed=True)
    claimed, late = queued(), queued()
    [_, job] = Email.objects.claim(limit=2)
    job.fail(TimeoutError("slow"), 600)
    return SimpleNamespace(
        unsent=queued(),
        claimed=claimed,
        late=late,
        sent=sent,
        failed=failed,
        old=archived(finished()),
    )


def fancy_letter() -> EmailMultiAlternatives:
    message = EmailMultiAlternatives(
        "Hello", "plain <i>text</i>", "s@x.example", ["a@x.example"], headers={"X-A": "<u>"}
    )
    source = (
        '<p>Grüße</p><img src="cid:logo@x"><img src="https://evil.example/x.png">'
        "<img src='cid:page@x'><img src=cid:nobody@x><p style='background:url(CID:logo%40x)'>"
    )
    message.attach_alternative(source, "text/html")
    for name, kind in (("logo@x", "png"), ("page@x", "html")):
        image = MIMEImage(PNG, kind)
        image["Content-ID"] = f"<{name}>"
        message.attach(image)
    message.attach("<a>.pdf", b"1234", "application/pdf")
    return message
