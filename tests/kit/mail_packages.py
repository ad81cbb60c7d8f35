"""The mail of other people's packages, as their own code sends it: through the queue, and without.

    python -m tests.kit.mail_packages [FLOW...]

A flow runs twice: with Django's backend in memory, to see that it works by itself; then each of its
messages goes to both backends, and what the queue delivers is compared with what it was given.
``scripts/mail_packages.py`` installs the packages.
"""

import os
import re
import sys
from collections.abc import Callable
from typing import Any

import django
from django.core import mail
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend

MEMORY = "django.core.mail.backends.locmem.EmailBackend"
BOTH = f"{__name__}.Both"
PASSWORD = "a-Long-0ne-for-tests"

given: list[tuple[list[str], bytes]] = []


class Both(BaseEmailBackend):
    """Keeps what it was given, and queues it."""

    def send_messages(self, email_messages: Any) -> int:
        from django_dbqueue.mail.backends import EmailBackend

        given.extend(map(seen, email_messages))
        return EmailBackend(fail_silently=False).send_messages(email_messages)


def seen(message: EmailMessage) -> tuple[list[str], bytes]:
    """Its recipients, and the message without what is new on every rendering."""
    data = message.message().as_bytes()
    data = re.sub(rb"(?m)^(Date|Message-ID): .*(\n[ \t].*)*\n", b"", data)
    return message.recipients(), re.sub(rb"={15}\d+==", b"BOUNDARY", data)


# --- flows: each does what a visitor of the site, or its staff, does ------------------------------


def user(name: str) -> Any:
    from django.contrib.auth.models import User

    return User.objects.create_user(name, f"{name}@x.example", PASSWORD)


def post(path: str, data: dict[str, Any], **more: Any) -> Any:
    from django.test import Client

    answer = Client().post(path, data, **more)
    assert answer.status_code < 400, (answer.status_code, answer.content[:500])
    return answer


def django_itself(name: str) -> None:
    post("/password_reset/", {"email": user(name).email})


def djoser(name: str) -> None:
    new = {"username": name, "email": f"{name}@x.example", "password": PASSWORD}
    post("/auth/users/", new, content_type="application/json")
    reset = {"email": user(f"{name}2").email}
    post("/auth/users/reset_password/", reset, content_type="application/json")


def allauth(name: str) -> None:
    passwords = {"password1": PASSWORD, "password2": PASSWORD}
    post("/accounts/signup/", {"username": name, "email": f"{name}@x.example", **passwords})
    post("/accounts/password/reset/", {"email": user(f"{name}2").email})


def wagtail(name: str) -> None:
    from django.contrib.auth.models import User
    from wagtail.admin.mail import send_mail

    one = user(name)
    User.objects.filter(pk=one.pk).update(is_superuser=True)
    post("/cms/password_reset/", {"email": one.email})
    send_mail("Moderate", "a page waits", [one.email], html_message="<p>a page waits</p>")


def registration(name: str) -> None:
    passwords = {"password1": PASSWORD, "password2": PASSWORD}
    post("/members/register/", {"username": name, "email": f"{name}@x.example", **passwords})


def newsletter(name: str) -> None:
    from django.contrib.sites.models import Site
    from newsletter.models import Message, Newsletter, Submission, Subscription

    letter = Newsletter.objects.create(
        title=name, slug=name, email="news@x.example", sender="X", send_html=True
    )
    letter.site.add(Site.objects.get_current())
    subscribers = [
        Subscription.objects.create(newsletter=letter, user=user(f"{name}{n}"), subscribed=True)
        for n in range(3)
    ]
    subscribers[0].send_activation_email(action="subscribe")
    message = Message.objects.create(title="News", slug="news", newsletter=letter)
    Submission.from_message(message).submit()


def invitations(name: str) -> None:
    from django.test import RequestFactory
    from invitations.utils import get_invitation_model

    invitation = get_invitation_model().create(f"{name}@x.example", inviter=user(f"{name}2"))
    invitation.send_invitation(RequestFactory().get("/"))


def two_factor(name: str) -> None:
    from django_otp.plugins.otp_email.models import EmailDevice

    EmailDevice.objects.create(user=user(name), name="default").generate_challenge()


def mail_templated(name: str) -> None:
    from mail_templated import EmailMessage, send_mail

    one = user(name)
    EmailMessage("letter.tpl", {"user": one}, "shop@x.example", [one.email]).send()
    send_mail("letter.tpl", {"user": one}, "shop@x.example", [one.email])


FLOWS: dict[str, Callable[[str], None]] = {
    "django": django_itself,
    "djoser": djoser,
    "allauth": allauth,
    "wagtail": wagtail,
    "registration": registration,
    "newsletter": newsletter,
    "invitations": invitations,
    "two-factor": two_factor,
    "mail-templated": mail_templated,
}


# --- comparing ------------------------------------------------------------------------------------


def outcome(flow: Callable[[str], None]) -> str:
    """What is wrong, or '' and how many messages were the same."""
    from django.test import override_settings

    name = flow.__name__.replace("_", "")
    mail.outbox = []
    try:
        with override_settings(EMAIL_BACKEND=MEMORY):
            flow(f"{name}alone")
    except Exception as error:
        return f"does not work without us: {type(error).__name__}: {error}"
    alone = len(mail.outbox)
    given.clear()
    try:
        with override_settings(EMAIL_BACKEND=BOTH):
            flow(f"{name}both")
    except Exception as error:
        return f"FAILED: {type(error).__name__}: {error}"
    delivered = sorted(deliver())
    if delivered != sorted(given) or len(given) != alone or not given:
        return f"FAILED: {alone} without us, {len(given)} queued, {len(delivered)} delivered"
    return f"{len(given)} messages, delivered as they were sent"


def deliver() -> list[tuple[list[str], bytes]]:
    from django_dbqueue.mail.models import Email

    mail.outbox = []
    while jobs := Email.objects.claim(limit=10):
        for job in jobs:
            job.run()
            job.complete()
    return list(map(seen, mail.outbox))


def main(names: list[str]) -> int:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.kit.settings_mail_packages"
    django.setup()
    from django.core.management import call_command
    from django.test.utils import setup_test_environment

    setup_test_environment()
    call_command("migrate", run_syncdb=True, verbosity=0)
    print(f"Django {django.get_version()}", flush=True)
    failed = 0
    for name in ["django", *names]:
        said = outcome(FLOWS[name])
        failed += said.startswith("FAILED")
        print(f"  {name:15} {said}", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
