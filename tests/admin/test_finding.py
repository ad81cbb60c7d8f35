"""One search over all: jobs, mail, failures and workers, as far as somebody may see them."""

import html
import re

import pytest
from django.db.utils import OperationalError

from django_dbqueue.admin import finding
from django_dbqueue.mail.models import Email
from django_dbqueue.metrics.failures import start_of
from django_dbqueue.models import FailureKind, Worker
from django_dbqueue.operate import walking
from tests.kit.admin_lists import NOTES, text_of
from tests.kit.failures import count
from tests.kit.overview import Away
from tests.queueapp.models import ArchivedKept, Kept, Note, Shared

pytestmark = pytest.mark.usefixtures("db_rows")

SEARCH = "/admin/dbqueue/queue/search/"
OVERVIEW = "/admin/dbqueue/queue/"


def hits(browser, term):
    """What was found, by its address."""
    page = text_of(browser.get(SEARCH, {"q": term}))
    _, *sections = page.split('<section class="dbqueue-found">')
    found = re.findall(r'<li><a href="([^"]+)">([^<]+)</a>', "".join(sections))
    return {html.unescape(url): html.unescape(text) for url, text in found}


def email(**columns):
    given = {"subject": "Your order 12", "recipients": "Anna <anna@x.example>"}
    return Email.objects.create(**given | columns)


def kind_of_failure(**columns):
    given = {
        "job_table": Note._meta.db_table,
        "fingerprint": "f" * 16,
        "exception": "shop.errors.OutOfStock",
        "place": "shop.jobs.pick",
        "words": "no mugs are left of colour (value)",
        "first_seen": start_of(100),
        "last_seen": start_of(100),
    }
    return FailureKind.objects.create(**given | columns)


def worker(**columns):
    given = {"uuid": f"{7:032}", "name": "night", "host": "Mug-1.example", "pid": 4711}
    return Worker.objects.create(**given | columns)


def page_of(row):
    label = row._meta.label_lower.replace(".", "/")
    return f"/admin/{label}/{row.pk}/change/"


@pytest.mark.each_database
def test_the_number_of_a_job_is_found_in_every_table(browser):
    note = Note.objects.create()
    mail = email(pk=note.pk)
    old = ArchivedKept.objects.bulk_create([ArchivedKept(pk=note.pk)])[0]
    assert {page_of(one) for one in (note, mail, old)} <= hits(browser, str(note.pk)).keys()


@pytest.mark.each_database
@pytest.mark.parametrize("term", ["anna@x.example", "your order", "<m@x.example>"])
def test_an_email_is_found_by_what_it_is_known_by(browser, term):
    mail = email(message_id="<m@x.example>")
    assert hits(browser, term) == {
        page_of(mail): f"email {mail.pk}: Your order 12, to Anna <anna@x.example>"
    }


@pytest.mark.each_database
def test_a_dedup_key_is_found(browser):
    note = Note.objects.create(dedup_key="photo:7")
    assert list(hits(browser, "photo:7")) == [page_of(note)]


@pytest.mark.each_database
@pytest.mark.parametrize("term", ["outofstock", "shop.jobs", "no MUGS are left"])
def test_a_failure_is_found_by_a_part_of_it(browser, term):
    kind_of_failure()
    [(url, text)] = hits(browser, term).items()
    assert url == f"{NOTES}?failure={'f' * 16}"
    assert text == "shop.errors.OutOfStock: no mugs are left of colour (value)"


def test_failures_are_found_where_the_database_of_another_table_is_away(browser, settings):
    kind_of_failure()
    away = Away(Shared)
    settings.DATABASE_ROUTERS = [away]
    try:
        found = hits(browser, "outofstock")
        page = text_of(browser.get(SEARCH, {"q": "outofstock"}))
    finally:
        settings.DATABASE_ROUTERS = []
        away.end()
    assert list(found.values()) == ["shop.errors.OutOfStock: no mugs are left of colour (value)"]
    assert "unable to open database file" in page


ORDER = OSError("order 4711 of 'anna' (anna@x.example) was not found")


@pytest.mark.each_database
@pytest.mark.parametrize(
    "term",
    [
        str(ORDER),
        f"OSError: {ORDER}",
        f"builtins.OSError: {ORDER}",
        "oserror: ORDER 12 of 'bob'",
        "order 4711 of 'anna'",
        "order # of '..'",
        "OSError: was not",
    ],
)
def test_a_failure_is_found_by_its_error_as_the_page_of_a_job_shows_it(browser, term):
    count(1, ORDER)
    count(1, OSError("disk 3 is full"))
    count(1, ValueError("order 4711 of 'anna' was lost"))
    found = {text for text in hits(browser, term).values() if "OSError" in text}
    assert found == {"builtins.OSError: order # of '..' (<address>) was not found"}


@pytest.mark.parametrize("term", ["4711", "'anna'", "7, 8", "ValueError: order", "x: order"])
def test_values_alone_are_in_no_failure(browser, term):
    count(1, ORDER)
    assert hits(browser, term) == {}


@pytest.mark.parametrize("term", ["mug-1", "4711", "night", f"{7:032}", f"{7:032}.12-3", "0" * 8])
def test_a_worker_is_found_by_name_host_process_or_claim(browser, term):
    one = worker()
    worker(uuid="9" * 32, name="day", host="other", pid=1)
    assert list(hits(browser, term)) == [f"/admin/dbqueue/worker/{one.pk}/change/"]


def test_each_sees_what_it_may_see(people):
    kind_of_failure()
    worker()
    email()
    assert hits(people("view_queue"), "mug") == {}
    found = hits(people("view_queue", "view_note"), "shop.errors")
    assert list(found.values()) == ["shop.errors.OutOfStock"]
    assert hits(people("view_queue", "view_note"), "no mugs") == {}
    assert len(hits(people("view_queue", "view_note", "inspect_note"), "no mugs")) == 1
    assert len(hits(people("view_queue", "view_worker"), "mug")) == 1
    assert hits(people("view_queue", "view_worker"), "anna@x.example") == {}
    assert len(hits(people("view_queue", "view_email"), "anna@x.example")) == 1
    assert people("view_note").get(SEARCH).status_code == 403


def test_more_than_some_are_found_in_the_list(browser):
    for _ in range(finding.HITS_MAX + 1):
        email()
    page = text_of(browser.get(SEARCH, {"q": "Your order"}))
    assert len(hits(browser, "Your order")) == finding.HITS_MAX
    assert '<a href="/admin/dbqueue_mail/email/?q=Your+order">There may be more</a>' in page


@pytest.mark.each_database
@pytest.mark.parametrize("term", ["", "  ", "\0", "\ud800", "9" * 600, "<script>x</script>", "%"])
def test_whatever_is_typed_is_answered(browser, term):
    email(subject="<script>x</script>")
    page = text_of(browser.get(SEARCH, {"q": term.encode(errors="surrogatepass")}))
    assert "<script>x" not in page
    assert ("Whole values are found" in page) == (not term.strip(" \0"))


def test_a_table_that_cannot_be_asked_hides_no_other(browser, monkeypatch):
    note = Note.objects.create(dedup_key="photo:7")
    real = walking.walk

    def ask(keyset, *more):
        if keyset.queryset.model is Kept:
            raise OperationalError("the disk is full")
        return real(keyset, *more)

    monkeypatch.setattr(walking, "walk", ask)
    assert list(hits(browser, "photo:7")) == [page_of(note)]


def test_the_overview_has_the_box_and_lists_lead_to_it(browser):
    page = text_of(browser.get(OVERVIEW))
    assert f'action="{SEARCH}"' in page
    assert "dbqueue/keys.js" in page
    page = text_of(browser.get(NOTES, {"q": "a&b"}))
    assert f'<a href="{SEARCH}?q=a%26b">' in page


def test_its_cost_does_not_grow(browser, django_assert_max_num_queries):
    Note.objects.bulk_create([Note() for _ in range(300)])
    Email.objects.bulk_create([Email(subject=f"Order {n}") for n in range(300)])
    with django_assert_max_num_queries(70):
        hits(browser, "Order")
