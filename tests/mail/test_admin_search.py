"""Mail is found in the admin by whom it is for and what about, by indexes alone."""

import html
import re
import shutil
from urllib.parse import parse_qsl

import pytest

from django_dbqueue.admin import search
from django_dbqueue.mail.admin.emails import ArchivedEmailAdmin, EmailAdmin
from django_dbqueue.mail.models import Email, Recipient
from django_dbqueue.operate import keyset as pagination
from django_dbqueue.operate import walking
from tests.kit.clusters import alias_to
from tests.kit.mail import archived, finished, in_archive, letter, queued
from tests.kit.mail_admin import ARCHIVE, LIST, text_of
from tests.kit.query_plans import captured, complaints, update_statistics

pytestmark = pytest.mark.usefixtures("db_rows", "queueing")

ANNA = "anna@x.example"
EMAILS, RECIPIENTS = "dbqueue_mail_email", "dbqueue_mail_recipient"


def shown(browser, term, url=LIST, **more):
    page = text_of(browser.get(url, {"q": term, **more}))
    keys = re.findall(r"email/(\d+)/change/[^>]*>[^<]*</a></th>", page)
    return [int(key) for key in keys], page


def keys(browser, term, url=LIST, **more):
    return shown(browser, term, url, **more)[0]


@pytest.mark.each_database
@pytest.mark.parametrize("term", [ANNA, "  Anna <ANNA@x.example> ", "ANNA@X.EXAMPLE"])
def test_the_emails_to_an_address_are_found_the_newest_first(browser, term):
    first, copied = queued("Anna <anna@x.example>"), queued("berta", bcc=[ANNA])
    queued("berta", "joanna")
    assert keys(browser, term) == [copied.pk, first.pk]


def test_the_archive_is_searched_as_well(browser):
    old = in_archive("anna", "berta")
    queued("carla")
    assert keys(browser, "berta@x.example", ARCHIVE) == [old.pk]
    assert keys(browser, "berta@x.example") == []


def test_a_state_and_a_search_go_together(browser):
    queued(ANNA)
    failed = finished(letter(ANNA), failed=True)
    assert keys(browser, ANNA, state="4") == [failed.pk]


@pytest.mark.each_database
@pytest.mark.parametrize("term", ["anna@x", "anna", "x.example", "@x.example", "%@x.example"])
def test_a_part_of_an_address_finds_nobody(browser, term):
    queued(ANNA)
    assert keys(browser, term) == []


@pytest.mark.each_database
@pytest.mark.parametrize("term", ["Your order 1", "your ORDER 12", "Your order 12"])
def test_a_subject_is_found_by_its_beginning(browser, term):
    email = queued(subject="Your order 12")
    queued(subject="Is this your order 12")
    assert keys(browser, term) == [email.pk]


@pytest.mark.each_database
@pytest.mark.parametrize("term", ["100% off", "under_score", "back\\slash", 'quo"te', "it's"])
def test_what_a_pattern_would_mean_stands_for_itself(browser, term):
    email = queued(subject=f"{term}!")
    queued(subject="100 percent off"), queued(subject="underXscore")
    assert keys(browser, term) == [email.pk]


def test_who_finds_no_beginning_may_look_through_all_subjects(browser):
    email = queued(subject="Is this your order 12")
    found, page = shown(browser, "order 12")
    assert found == []
    link = re.search(r'<a href="(\?subject__icontains=[^"]+)">', page)
    assert f"email/{email.pk}/change/" in text_of(browser.get(LIST + link[1]))


def test_to_look_through_all_keeps_the_other_filters(browser):
    queued(subject="Is this your order 12")
    page = shown(browser, "order 12", state="0", queue="default", from_email="x")[1]
    link = html.unescape(re.search(r'<a href="(\?[^"]+)">Look through all', page)[1])
    kept = {"state": "0", "queue": "default", "from_email": "x"}
    assert dict(parse_qsl(link[1:])) == kept | {"subject__icontains": "order 12"}


def test_to_look_through_all_stays_in_the_database(browser, monkeypatch, tmp_path, migrated):
    both = classmethod(lambda _: ["default", "south"])
    monkeypatch.setattr(Email, "written_databases", both)
    with alias_to(f"sqlite:///{shutil.copy(migrated, tmp_path)}", "south"):
        link = "?subject__icontains=order&amp;database=south"
        page = text_of(browser.get("/admin/dbqueue/queue/search/", {"q": "order"}))
        assert f'<a href="{LIST}{link}">Look through all' in page
        page = shown(browser, "order", database="south")[1]
        assert '<a href="?database=south&amp;subject__icontains=order">Look through all' in page


@pytest.mark.each_database
def test_subjects_that_begin_alike_by_the_thousand_are_looked_for_newest_first(
    browser, monkeypatch
):
    monkeypatch.setattr(search, "FOUND_ROWS_MAX", 3)
    monkeypatch.setattr(pagination, "WINDOW_ROWS", 2)
    monkeypatch.setattr(walking, "WALK_SECONDS", 60)
    alike = [queued(subject=f"Order {number}") for number in range(5)]
    queued(subject="other")
    assert keys(browser, "Order") == [email.pk for email in alike[::-1]]


@pytest.mark.each_database
def test_next_to_subjects_that_begin_alike_a_number_is_found(browser, monkeypatch):
    monkeypatch.setattr(search, "FOUND_ROWS_MAX", 3)
    monkeypatch.setattr(walking, "WALK_SECONDS", 60)
    found = queued(subject="other")
    alike = [queued(subject=f"{found.pk}x% of {number}") for number in range(3)]
    queued(subject=f"not {found.pk}x%")
    assert keys(browser, str(found.pk)) == [email.pk for email in [*alike[::-1], found]]
    assert keys(browser, f"{found.pk}X%") == [email.pk for email in alike[::-1]]


@pytest.mark.each_database
def test_of_an_address_with_thousands_the_newest_are_found_and_it_says_so(browser, monkeypatch):
    monkeypatch.setattr(search, "FOUND_ROWS_MAX", 3)
    emails = [queued(ANNA, subject=f"S{number}") for number in range(5)]
    found, page = shown(browser, ANNA)
    assert found == [email.pk for email in emails[:1:-1]]
    assert "To this address the newest 3 emails are found." in page


def test_mail_of_before_the_upgrade_is_missed_aloud(browser):
    queued(ANNA)
    Recipient.objects.all().delete()
    found, page = shown(browser, ANNA)
    assert found == []
    assert "once manage.py index_recipients has run" in page


@pytest.mark.parametrize("column", ["recipients", "subject"])
def test_what_is_masked_is_not_searched(browser, monkeypatch, column):
    queued(ANNA, subject="secret plan")
    monkeypatch.setattr(EmailAdmin, "masked", (column,), raising=False)
    term, other = (ANNA, "secret") if column == "recipients" else ("secret", ANNA)
    assert keys(browser, term) == []
    assert len(keys(browser, other)) == 1


@pytest.mark.parametrize("lookup", ["recipients__icontains", "subject__startswith", "subject"])
def test_what_is_masked_is_neither_a_filter_nor_shown(people, monkeypatch, lookup):
    email = queued(ANNA, subject="secret plan")
    monkeypatch.setattr(EmailAdmin, "masked", ("recipients", "subject"), raising=False)
    for browser in (people("view_email", "view_queue"), people(is_superuser=True)):
        assert browser.get(LIST, {lookup: "secret"}).status_code == 400
        found = text_of(browser.get("/admin/dbqueue/queue/search/", {"q": email.pk}))
        assert f"email {email.pk}: ********, to ********" in html.unescape(found)
        assert f"email/{email.pk}/change/" in text_of(browser.get(LIST))
        assert not re.search("secret|anna@", found + text_of(browser.get(LIST)))
    page = text_of(people("view_email").get(f"{LIST}{email.pk}/change/"))
    assert not re.search("secret|anna@", page)


@pytest.mark.parametrize("column", ["recipients", "subject"])
def test_a_hit_tells_only_what_all_may_see(people, monkeypatch, column):
    email = queued(ANNA, subject="secret plan")
    monkeypatch.setattr(EmailAdmin, "open_columns", EmailAdmin.open_columns - {column})
    browser = people("view_email", "view_queue")
    found = text_of(browser.get("/admin/dbqueue/queue/search/", {"q": email.pk}))
    assert ("secret" in found, ANNA in found) == (column != "subject", column != "recipients")


@pytest.mark.parametrize("column", ["recipients", "subject"])
def test_what_a_role_may_not_see_it_does_not_find(people, monkeypatch, column):
    queued(ANNA, subject="secret plan")
    monkeypatch.setattr(EmailAdmin, "open_columns", EmailAdmin.open_columns - {column})
    term = ANNA if column == "recipients" else "secret"
    assert keys(people("view_email"), term) == []
    assert len(keys(people("view_email", "inspect_email"), term)) == 1


@pytest.mark.parametrize("column", ["recipients", "subject"])
@pytest.mark.parametrize("is_old", [False, True])
def test_what_a_role_may_not_see_is_on_no_page(people, monkeypatch, column, is_old):
    email = finished(letter(ANNA, subject="secret plan"))
    admin, url = (ArchivedEmailAdmin, ARCHIVE) if is_old else (EmailAdmin, LIST)
    email = archived(email) if is_old else email
    monkeypatch.setattr(admin, "open_columns", admin.open_columns - {column})
    term, other = (ANNA, "secret") if column == "recipients" else ("secret", ANNA)
    for page in (url, f"{url}{email.pk}/change/"):
        shown = text_of(people("view_email", "view_archivedemail").get(page))
        assert (term in shown, other in shown) == (False, True)
        assert term in text_of(people(is_superuser=True).get(page))


@pytest.mark.each_database
@pytest.mark.parametrize("term", ["n2000@x.example", "Order 2000"])
def test_a_search_goes_by_indexes(browser, term):
    rows = [Email(recipients=f"n{n}@x.example", subject=f"Order {n}") for n in range(3000)]
    Email.objects.bulk_create(rows)
    update_statistics(EMAILS, RECIPIENTS)
    with captured(RECIPIENTS) as by_address, captured(EMAILS) as of_emails:
        assert len(keys(browser, term)) == 1
    # Not the look at twenty emails whether they are all there, which reads little by itself.
    by_address = [one for one in by_address if "address" in one.sql.partition("WHERE")[2]]
    by_subject = [one for one in of_emails if "LIKE" in one.sql]
    assert by_address if "@" in term else by_subject
    assert [what for one in by_address for what in complaints(one, RECIPIENTS)] == []
    assert [what for one in by_subject for what in complaints(one, EMAILS)] == []
