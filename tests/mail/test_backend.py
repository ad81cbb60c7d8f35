"""Queueing mail: in the caller's transaction, by one INSERT, refused when it cannot be sent."""

from typing import Any

import pytest
from django.core import mail
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.mail import send_mail, send_mass_mail
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from django_dbqueue.mail import rows
from django_dbqueue.mail.backends import EmailBackend
from django_dbqueue.mail.checks import check_delivery
from django_dbqueue.mail.models import ArchivedEmail, Email
from django_dbqueue.states import Status
from tests.kit.jobs import forget_tables, fresh
from tests.kit.mail import HAS_MAILERS, MAILER, MEMORY, QUEUED, letter, setting

pytestmark = pytest.mark.usefixtures("queueing")


# --- queueing -----------------------------------------------------------------------------------


def test_mail_sent_the_usual_way_is_queued(db_rows: None) -> None:
    sent = send_mail("Grüße", "text", "shop@x.example", ["anna@x.example", "b@x.example"])
    assert sent == 1
    email = Email.objects.get()
    assert email.subject == "Grüße"
    assert email.from_email == "shop@x.example"
    assert email.recipients == "anna@x.example, b@x.example"
    assert email.status == Status.READY
    assert email.mail_state == "unsent"
    assert email.using == MAILER
    assert email.to_message().body == "text"


def test_mail_is_queued_with_the_callers_transaction(db_rows: None) -> None:
    with transaction.atomic():
        letter().send()
        assert Email.objects.count() == 1
        transaction.set_rollback(True)
    assert Email.objects.count() == 0
    with transaction.atomic():
        letter().send()
    assert Email.objects.count() == 1


def test_many_messages_are_one_insert(db_rows: None) -> None:
    data = [(f"S{i}", "text", "shop@x.example", ["anna@x.example"]) for i in range(20)]
    with CaptureQueriesContext(connection) as queries:
        assert send_mass_mail(data) == 20
    inserts = [q["sql"] for q in queries if q["sql"].startswith("INSERT")]
    tables = [sql.replace("`", '"').split('"')[1] for sql in inserts]
    assert tables == ["dbqueue_mail_email", "dbqueue_mail_recipient"]
    assert Email.objects.count() == 20


def test_many_large_messages_are_several_inserts_in_one_transaction(
    db_rows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "INSERT_BYTES", 5000)
    with CaptureQueriesContext(connection) as queries:
        assert EmailBackend().send_messages([letter(body="x" * 2000) for _ in range(4)]) == 4
    emails = [q for q in queries if q["sql"].startswith("INSERT") and "message" in q["sql"]]
    assert len(emails) == 2
    assert Email.objects.count() == 4


def test_a_message_to_nobody_is_not_queued(db_rows: None) -> None:
    nobody = letter(to=[])
    assert EmailBackend().send_messages([nobody]) == 0
    assert EmailBackend().send_messages([]) == 0
    assert EmailBackend().send_messages([nobody, letter(), letter(cc=["c@x.example"])]) == 2
    assert Email.objects.count() == 2


def test_a_message_only_to_blind_copies_is_queued_and_they_are_no_header(db_rows: None) -> None:
    letter(to=[], bcc=["b@x.example"]).send()
    email = Email.objects.get()
    assert email.recipients == "b@x.example"
    assert "b@x.example" not in str(email.to_message().message())


def test_each_message_has_its_own_message_id_and_keeps_it(db_rows: None) -> None:
    EmailBackend().send_messages([letter(), letter(), letter(headers={"Message-ID": "<x@y>"})])
    first, second, third = Email.objects.order_by("id")
    assert first.message_id != second.message_id
    assert third.message_id == "<x@y>"
    for email in (first, second, third):
        assert email.to_message().message()["Message-ID"] == email.message_id


def test_the_senders_message_is_left_as_it_was(db_rows: None) -> None:
    message = letter()
    before = dict(vars(message))
    message.send()
    after = {name: value for name, value in vars(message).items() if "connection" not in name}
    assert after == {name: value for name, value in before.items() if "connection" not in name}
    assert message.extra_headers == {}


def test_what_is_too_long_for_a_list_is_cut_there_and_whole_in_the_message(db_rows: None) -> None:
    many = [f"{'a' * 50}{i}@x.example" for i in range(30)]
    letter(*many, subject="é" * 900, from_email=f"{'b' * 400} <b@x.example>").send()
    email = Email.objects.get()
    assert email.subject == "é" * 255
    assert len(email.from_email) == 320
    assert email.recipients == ", ".join(many)
    assert email.to_message().subject == "é" * 900


@pytest.mark.parametrize("body", ["a\x00b", "😀", "\\ \" ' %s %", "x" * 100_000, "\ud800"])
def test_any_body_comes_back_from_the_database(db_rows: None, body: str) -> None:
    letter(body=body).send()
    assert Email.objects.get().to_message().body == body


def test_a_queue_of_its_own_is_used(db_rows: None, settings: Any) -> None:
    EmailBackend(queue="bulk").send_messages([letter()])
    setting(settings, MAIL_QUEUE="post")
    EmailBackend().send_messages([letter()])
    assert list(Email.objects.order_by("id").values_list("queue", flat=True)) == ["bulk", "post"]
    with pytest.raises(ValidationError, match="control"):
        EmailBackend(queue="a\nb")


# --- refusals -----------------------------------------------------------------------------------


def test_one_bad_message_refuses_the_whole_list_and_the_transaction_lives(db_rows: None) -> None:
    messages = [letter(), letter(subject="a\nBcc: all@x.example"), letter()]
    with transaction.atomic():
        with pytest.raises(ValueError, match="subject"):
            EmailBackend().send_messages(messages)
        assert Email.objects.count() == 0


def test_a_message_over_the_limit_is_refused_with_both_sizes(db_rows: None, settings: Any) -> None:
    setting(settings, MAIL_MAX_BYTES=2000)
    letter(body="x" * 1000).send()
    with pytest.raises(ValueError, match=r"\d{4} bytes as stored; the limit .* is 2000"):
        letter(body="é" * 1000).send()


def test_the_limit_is_10_mebibytes(db_rows: None) -> None:
    with pytest.raises(ValueError, match="10485760"):
        letter(attachments=[("a.bin", b"x" * 8_000_000, "application/x-bin")]).send()


def test_fail_silently_leaves_out_what_cannot_be_stored(db_rows: None) -> None:
    messages = [letter(), letter("b@x.example\n"), letter()]
    assert EmailBackend(fail_silently=True).send_messages(messages) == 2
    assert Email.objects.count() == 2


def test_fail_silently_does_not_break_the_callers_transaction(
    db_rows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with transaction.atomic():
        letter(subject="before").send()
        with monkeypatch.context() as broken:
            broken.setattr(Email._meta, "db_table", "no_such_table")
            forget_tables()
            assert EmailBackend(fail_silently=True).send_messages([letter()]) == 0
        forget_tables()
        letter(subject="after").send()
    assert set(Email.objects.values_list("subject", flat=True)) == {"before", "after"}


def test_without_fail_silently_an_error_of_the_database_is_raised(
    db_rows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(Email._meta, "db_table", "no_such_table")
        forget_tables()
        with pytest.raises(DatabaseError):
            EmailBackend().send_messages([letter()])
    forget_tables()


# --- states -------------------------------------------------------------------------------------


def test_the_states_read_in_mails_words(db_rows: None) -> None:
    letter().send()
    [job] = Email.objects.claim(limit=1)
    assert fresh(job).mail_state == "claimed"
    job.fail(TimeoutError("slow"), 600)
    assert fresh(job).mail_state.startswith("retry at 2")
    Email.objects.filter(pk=job.pk).bury()
    assert fresh(job).mail_state == "failed"
    Email.objects.filter(pk=job.pk).kick()
    [job] = Email.objects.claim(limit=1)
    job.run()
    job.complete()
    assert fresh(job).mail_state == "sent"


def test_the_archive_has_every_column_of_the_queue() -> None:
    columns = {field.column for field in Email._meta.concrete_fields}
    assert {field.column for field in ArchivedEmail._meta.concrete_fields} == columns


def test_the_policy_is_mails_own() -> None:
    policy = Email.policy()
    assert policy.finish == "each"
    assert policy.max_attempts == 8
    assert 1080 <= policy.backoff.seconds(1) <= 1320


# --- configuration ------------------------------------------------------------------------------


def configure(settings: Any, delivery: str | None, using: Any = "out") -> None:
    if HAS_MAILERS:
        options = {} if using is None else {"using": using}
        entry: dict[str, Any] = {} if delivery is None else {"BACKEND": delivery}
        if delivery == QUEUED:
            entry["OPTIONS"] = {"using": "default"}
        settings.MAILERS = {"default": {"BACKEND": QUEUED, "OPTIONS": options}, "out": entry}
        settings.DBQUEUE = {}
    else:
        settings.DBQUEUE = {} if delivery is None else {"MAIL_DELIVERY_BACKEND": delivery}


def problems() -> list[str | None]:
    assert {p.id for p in check_delivery()} <= {p.id for p in run_checks(tags=["mail"])}
    return [problem.id for problem in check_delivery()]


@pytest.mark.parametrize("delivery", [None, MEMORY])
def test_the_checks_accept_a_backend_that_delivers(settings: Any, delivery: str | None) -> None:
    configure(settings, delivery)
    assert problems() == []


def test_the_checks_refuse_to_queue_queued_mail_again(settings: Any) -> None:
    configure(settings, QUEUED)
    assert set(problems()) == {"dbqueue_mail.E001"}


def test_the_checks_refuse_a_backend_that_is_not_there(settings: Any) -> None:
    configure(settings, "no.such.Backend")
    assert problems() == ["dbqueue_mail.E003"]


def test_where_there_are_mailers_using_must_name_one(settings: Any) -> None:
    if not HAS_MAILERS:
        with pytest.raises(ImproperlyConfigured, match="MAILERS, which is not set"):
            EmailBackend(using="out")
        return
    for using in (None, "nobody"):
        configure(settings, MEMORY, using)
        assert problems() == ["dbqueue_mail.E002"]
        with pytest.raises(ImproperlyConfigured, match=r"MAILERS\['default'\].*'using'"):
            mail.mailers["default"]


def test_options_that_nobody_knows_are_treated_as_djangos_backends_treat_them(
    settings: Any,
) -> None:
    if not HAS_MAILERS:
        assert EmailBackend(timeout=5, alias="default").alias == "default"
        return
    settings.MAILERS["default"]["OPTIONS"]["hots"] = "localhost"
    with pytest.raises(mail.InvalidMailer, match="Unknown options 'hots'"):
        mail.mailers["default"]


def test_a_mailer_is_used_by_its_alias(db_rows: None, settings: Any) -> None:
    if not HAS_MAILERS:
        assert mail.get_connection().send_messages([letter()]) == 1
        return
    settings.MAILERS["bulk"] = {"BACKEND": QUEUED, "OPTIONS": {"using": MAILER, "queue": "bulk"}}
    letter().send(using="bulk")
    email = Email.objects.get()
    assert (email.using, email.queue) == (MAILER, "bulk")
    assert mail.mailers["bulk"].alias == "bulk"  # type: ignore[attr-defined]


def test_a_message_is_delivered_by_the_mailer_it_was_queued_for(
    db_rows: None, mailoutbox: list[Any]
) -> None:
    letter().send()
    [job] = Email.objects.claim(limit=1)
    job.run()
    assert [message.subject for message in mailoutbox] == ["Hello"]
    if HAS_MAILERS:
        assert mailoutbox[0].sent_using == MAILER
