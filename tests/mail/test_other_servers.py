"""A connection to another server, a tenant's say, is refused: its mail would go out by ours."""

from typing import Any

import pytest
from django.core.mail import EmailMessage, get_connection, send_mail

from django_dbqueue.mail.models import Email
from tests.kit.mail import HAS_MAILERS, MAILER, MEMORY, SMTP, queue_into_memory

pytestmark = [
    pytest.mark.any_database,
    pytest.mark.usefixtures("queueing"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
]

SECRET = "a-tenants-secret"
TENANTS: list[dict[str, Any]] = [
    {"host": "smtp.tenant.example", "username": "tenant", "password": SECRET},
    {"host": "smtp.tenant.example"},
    {"port": 2525},
    {"use_tls": True},
    {"api_key": SECRET},  # as anymail's mailers take it
]


@pytest.mark.parametrize("given", TENANTS, ids=",".join)
@pytest.mark.parametrize("fail_silently", [False, True])
def test_another_server_is_refused_by_the_names_of_the_arguments(
    db_rows: None, given: dict[str, Any], fail_silently: bool
) -> None:
    with pytest.raises(ValueError, match=", ".join(sorted(given))) as refused:
        get_connection(fail_silently=fail_silently, **given)
    assert SECRET not in str(refused.value)
    assert ("send(using=...)" if HAS_MAILERS else "get_connection()") in str(refused.value)


def test_what_the_refusal_advises_sends_without_the_queue(
    db_rows: None, settings: Any, mailoutbox: list[EmailMessage]
) -> None:
    queue_into_memory(settings)
    message = EmailMessage("S", "t", "a@x.example", ["b@x.example"])
    if HAS_MAILERS:
        message.send(using=MAILER)  # type: ignore[call-arg,unused-ignore]
    else:
        message.connection = get_connection(MEMORY)
        message.send()
    assert len(mailoutbox) == 1
    assert Email.objects.count() == 0


def test_another_login_for_one_mail_is_refused(db_rows: None) -> None:
    with pytest.raises(ValueError, match="password, username"):
        send_mail("S", "text", "a@x.example", ["b@x.example"], auth_user="u", auth_password=SECRET)
    assert Email.objects.count() == 0


@pytest.mark.parametrize(
    "given", [{"host": None, "username": None}, {"host": "", "username": ""}, {"timeout": 5}]
)
def test_a_connection_that_names_no_other_server_queues(
    db_rows: None, given: dict[str, Any]
) -> None:
    connection = get_connection(**given)
    assert EmailMessage("S", "t", "a@x.example", ["b@x.example"], connection=connection).send() == 1
    assert Email.objects.count() == 1


def test_a_connection_that_repeats_what_the_settings_say_queues(
    db_rows: None, settings: Any
) -> None:
    server: dict[str, Any] = {
        "host": "mail.x.example",
        "port": 587,
        "username": "u",
        "use_tls": True,
    }
    if HAS_MAILERS:
        settings.MAILERS = settings.MAILERS | {MAILER: {"BACKEND": SMTP, "OPTIONS": server}}
    else:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "mail.x.example", 587
        settings.EMAIL_HOST_USER, settings.EMAIL_USE_TLS = "u", True
    connection = get_connection(**server)
    assert EmailMessage("S", "t", "a@x.example", ["b@x.example"], connection=connection).send() == 1
    with pytest.raises(ValueError, match="another port"):
        get_connection(**server | {"port": 588})
