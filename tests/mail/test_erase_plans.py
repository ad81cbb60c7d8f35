"""Messages are erased by the keys of their emails, however many of a table are chosen."""

import re

import pytest
from django.db import connection
from django.db.models import QuerySet

from django_dbqueue.fields import DbNow
from django_dbqueue.mail.models import ArchivedEmail, Email
from django_dbqueue.mail.privacy.erase import erase
from django_dbqueue.states import Status
from tests.kit.mail import finished
from tests.kit.query_plans import captured, judged, update_statistics

pytestmark = [pytest.mark.each_database, pytest.mark.usefixtures("db_rows")]
ROWS, CHOSEN = 600, 500


@pytest.mark.parametrize("model", [Email, ArchivedEmail])
def test_most_messages_of_a_table_are_erased_without_locking_the_rest(model):
    if connection.vendor != "mysql":
        pytest.skip("the others lock no row that they pass over")
    columns = {"status": Status.DONE, "subject": "hello", "finished_at": DbNow()}
    QuerySet(model).bulk_create(model(id=n + 1, **columns) for n in range(ROWS))
    update_statistics(model._meta.db_table)
    chosen = list(QuerySet(model).order_by("-pk")[:CHOSEN])
    with judged(model._meta.db_table) as complaints:
        assert erase(chosen) == chosen
    assert complaints == []
    assert QuerySet(model).filter(is_erased=False, subject="hello").count() == ROWS - CHOSEN


def test_emails_are_locked_in_the_order_of_their_keys():
    if not connection.features.has_select_for_update:
        pytest.skip("it has one lock for all")
    chosen = [finished(), finished()][::-1]
    with captured(Email._meta.db_table) as statements:
        assert erase(chosen) == chosen
    assert re.search("ORDER BY .?id.? FOR UPDATE$", statements[0].sql)
