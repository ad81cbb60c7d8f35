"""With ATOMIC_REQUESTS: what tells that a database or a table is away does not fail with it."""

import pytest
from django.contrib import admin
from django.core.handlers.base import BaseHandler
from django.db import OperationalError, connection, connections
from django.test import Client
from django.urls import path

from django_dbqueue.admin.queues import QueueAdmin
from django_dbqueue.metrics.prometheus import metrics_view
from django_dbqueue.models import Queue
from django_dbqueue.monitor import web
from tests.kit.clusters import alias_to
from tests.kit.overview import OVERVIEW, text_of
from tests.queueapp.models import Note

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]
urlpatterns = [
    path("healthz", web.healthz_view),
    path("queues.json", web.status_view),
    path("metrics", metrics_view),
    path("admin/", admin.site.urls),
]


@pytest.fixture(autouse=True)
def _atomic_requests(settings, monkeypatch):
    settings.ROOT_URLCONF = __name__
    settings.DBQUEUE = {**settings.DBQUEUE, "METRICS_TOKEN": "s3cret"}
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    web.HEALTH.forget()
    yield
    web.HEALTH.forget()


def refuse():
    raise OperationalError("no such host")


def test_machines_are_told_of_a_database_that_is_away(monkeypatch):
    client = Client(raise_request_exception=False, headers={"Authorization": "Bearer s3cret"})
    connection.close()
    with monkeypatch.context() as patch:
        patch.setattr(connection, "connect", refuse)
        health, status, metrics = map(client.get, ("/healthz", "/queues.json", "/metrics"))
    assert health.status_code == 503
    assert health.content.startswith(b"act")
    assert "no such host" in str(status.json()["problems"])
    assert b'dbqueue_up{database="default"} 0.0' in metrics.content


@pytest.fixture
def table_is_away(db_rows):
    """One queue table has another name for a while."""
    name, away = (connection.ops.quote_name(one) for one in (Note._meta.db_table, "away"))
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {name} RENAME TO {away}")
    yield
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {away} RENAME TO {name}")


@pytest.mark.usefixtures("table_is_away")
@pytest.mark.parametrize("page", ["", "failures/", "search/?q=5", "activity/", "charts/"])
def test_a_table_that_is_away_does_not_take_the_page_with_it(browser, page):
    text = text_of(browser.get(f"{OVERVIEW}{page}"))
    assert "current transaction is aborted" not in text


def test_no_database_wraps_what_tells_that_it_is_away(tmp_path):
    with alias_to(f"sqlite:///{tmp_path}/south.sqlite3", "south") as alias:
        connections[alias].settings_dict["ATOMIC_REQUESTS"] = True
        first, charts, *_ = QueueAdmin(Queue, admin.site).get_urls()
        for page in (first.callback, charts.callback):
            assert BaseHandler().make_view_atomic(page) is page
