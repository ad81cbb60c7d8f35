"""The line at a mailer's limit: who goes first, how often each asks, and lines made anew."""

from datetime import timedelta

import pytest
from hypothesis import given, seed
from hypothesis import settings as few
from hypothesis import strategies as st

from django_dbqueue.mail import requeueing
from django_dbqueue.mail.models import Email, Mailer
from django_dbqueue.mail.requeueing import Requeueing
from tests.kit.jobs import fresh, table
from tests.kit.limit_simulation import Line, Mail, figures
from tests.kit.mail import HAS_MAILERS, queued, run_mail

pytestmark = pytest.mark.each_database

LOCMEM = "django.core.mail.backends.locmem.EmailBackend"
NAME = "smtp" if HAS_MAILERS else "default"


def limit(settings, **rates):
    settings.DBQUEUE = {**settings.DBQUEUE, "MAIL_LIMITS": {NAME: rates, "smtp": rates}}


# --- with a clock of our own ------------------------------------------------------------------

MAILS = st.lists(
    st.tuples(st.integers(1, 30), st.floats(0, 20), st.booleans()), min_size=1, max_size=60
)


@seed(20261122)
@few(max_examples=50, deadline=None)
@given(MAILS, st.integers(1, 20), st.floats(0, 3), st.floats(0, 10))
def test_whoever_asks_and_however_late_no_second_sees_more_than_the_limit(
    mails, most, late, outage
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django_dbqueue.mail.conf.mail_conf", {"LIMITS": {"smtp": {"second": most}}})
        given = [Mail(n, count, at, is_urgent=u) for n, (count, at, u) in enumerate(mails)]
        Line(late=late, down=(5, 5 + outage)).run(given)
    assert all(mail.sent_at is not None for mail in given)
    assert figures(given, most)[0] <= max(most, *[mail.count for mail in given])


@pytest.mark.proof
@pytest.mark.parametrize(("late", "share"), [(0.06, 0.9), (0.3, 0.87)])
def test_many_who_wait_ask_about_twice_each_and_use_most_of_the_limit(settings, late, share, full):
    limit(settings, second=14)
    mails = [Mail(number) for number in range(10_000 if full else 2_500)]
    Line(late=late).run(mails)
    most, used, asks = figures(mails, 14)
    print(
        f"{len(mails):,} mails, up to {late} s late: "
        f"most {most}, {used:.1%} used, {asks:.2f} asks a mail"
    )
    assert most <= 14
    assert used > share
    assert asks < 2.6
    assert max(mail.asks for mail in mails) < 20


def test_a_mail_to_as_many_as_the_limit_is_sent_under_a_steady_load(settings):
    limit(settings, second=14)
    mails = [Mail(number, at=number / 12) for number in range(3000)]
    big = Mail(3000, count=14, at=60.0)
    Line().run([*mails, big])
    assert big.sent_at - big.at < 10
    assert max(mail.sent_at - mail.at for mail in mails) < 15


def test_urgent_mail_goes_before_the_line_which_goes_on(settings):
    limit(settings, second=14)
    mails = [Mail(number) for number in range(2000)]
    urgent = [Mail(3000 + n, at=20.0 + n, is_urgent=True) for n in range(60)]
    Line().run([*mails, *urgent])
    assert max(mail.sent_at - mail.at for mail in urgent) < 5
    assert figures([*mails, *urgent], 14)[1] > 0.85


def test_after_an_outage_of_all_workers_nobody_asks_over_and_over(settings):
    limit(settings, second=14)
    mails = [Mail(number) for number in range(3000)]
    Line(down=(30, 90)).run(mails)
    most, _, asks = figures(mails, 14)
    assert most <= 14
    assert asks < 3


# --- the rows ---------------------------------------------------------------------------------


@pytest.fixture
def mailer(db_rows, settings):
    settings.DBQUEUE = {"MAIL_DELIVERY_BACKEND": LOCMEM}
    if HAS_MAILERS:
        settings.MAILERS = {"smtp": {"BACKEND": LOCMEM}}
        settings.DBQUEUE = {"MAIL_USING": "smtp"}
    return settings


@pytest.fixture
def no_gaps(monkeypatch):
    """However long nobody has a turn, it is taken to be right."""
    monkeypatch.setattr(requeueing, "GAP_SECONDS", 1e9)


def line_of(settings, number=6):
    """One mail was sent, the others wait for hours; their rows."""
    limit(settings, day=1)
    emails = [queued("anna") for _ in range(number)]
    run_mail()
    assert states(emails) == ["sent"] + ["scheduled"] * (number - 1)
    return emails


def states(emails):
    return [fresh(email).mail_state.partition(" ")[0] for email in emails]


def in_days():
    row = Mailer.objects.named(NAME)
    return (row.line_ends_at - row.now) / timedelta(days=1) if row.line_ends_at else 0


def call_back():
    return Requeueing()(table(Email))


def test_after_a_limit_was_raised_those_who_wait_go_as_soon_as_it_allows(mailer, no_gaps):
    emails = line_of(mailer)
    limit(mailer, day=4)
    assert call_back() == 5
    run_mail()
    assert states(emails) == ["sent"] * 4 + ["scheduled"] * 2
    assert in_days() < 1.3
    assert call_back() == 0


def test_after_a_limit_was_removed_those_who_wait_go_at_once(mailer, no_gaps):
    emails = line_of(mailer)
    limit(mailer)
    assert call_back() == 5
    run_mail()
    assert states(emails) == ["sent"] * 6


def test_a_line_whose_mail_was_cancelled_holds_nobody_up(mailer):
    line_of(mailer)
    limit(mailer, day=1)
    assert in_days() > 4
    Email.objects.delayed().cancel()
    call_back()
    email = queued("berta")
    run_mail()
    assert fresh(email).turn_at - Mailer.objects.named(NAME).now < timedelta(days=1.1)


def test_a_line_is_called_back_in_chunks_that_another_process_goes_on_with(mailer, monkeypatch):
    monkeypatch.setattr(requeueing, "CHUNK", 2)
    emails = line_of(mailer)
    limit(mailer)
    assert [call_back() for _ in range(4)] == [2, 2, 1, 0]
    run_mail()
    assert states(emails) == ["sent"] * 6


def test_a_line_is_left_alone_where_nothing_has_changed(mailer):
    emails = line_of(mailer)
    before = [fresh(email).turn_at for email in emails]
    assert call_back() == 0
    assert [fresh(email).turn_at for email in emails] == before


def test_of_two_hosts_with_different_limits_each_has_its_way_but_once(mailer):
    line_of(mailer)
    here, there = Requeueing(), Requeueing()
    assert here(table(Email)) == 0
    limit(mailer, day=2)
    assert there(table(Email)) == 5
    run_mail()
    limit(mailer, day=1)
    assert here(table(Email)) == 0
    limit(mailer, day=2)
    assert there(table(Email)) == 0


def test_mail_that_is_called_back_keeps_its_attempts(mailer):
    emails = line_of(mailer)
    Email._base_manager.filter(pk=emails[3].pk).update(attempts=2)
    limit(mailer)
    call_back()
    assert fresh(emails[3]).attempts == 2
