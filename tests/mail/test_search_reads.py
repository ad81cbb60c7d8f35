"""Mail is searched without reading what an index has of a subject that very many begin with."""

import pytest
from django.db.models import QuerySet

from django_dbqueue.mail.models import Email
from django_dbqueue.operate import walking
from django_dbqueue.states import Status
from tests.kit.connections import truncate
from tests.kit.copied_rows import copy_rows
from tests.kit.mail_admin import LIST, text_of
from tests.kit.query_plans import steps, update_statistics

pytestmark = pytest.mark.each_database

EMAILS, SEED = 40_000, 1_000
TABLE = Email._meta.db_table
BOUND = 20_000


@pytest.fixture(scope="module", autouse=True)
def _alike(django_db_setup, django_db_blocker):
    """All subjects begin alike."""
    with django_db_blocker.unblock():
        truncate(TABLE)
        done = (Email(status=Status.DONE, subject=f"Your order {n}") for n in range(SEED))
        QuerySet[Email](Email).bulk_create(done)
        for _ in range(EMAILS // SEED - 1):
            copy_rows(Email, "id > 0", SEED)
        update_statistics(TABLE)
        yield
        truncate(TABLE)


@pytest.mark.parametrize("query", ["", "&state=2", "&state=0"])
def test_a_search_for_what_very_many_subjects_begin_with(browser, monkeypatch, query):
    monkeypatch.setattr(walking, "WALK_SECONDS", 0)
    url = f"{LIST}?q=Your+order{query}"
    assert ("Your order 999" in text_of(browser.get(url))) == ("state=0" not in query)
    assert steps(lambda: text_of(browser.get(url)), TABLE) < BOUND
