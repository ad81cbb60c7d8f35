"""Which jobs a bulk action is about: read off a list's rows, and stored as people read it."""

from datetime import UTC, datetime

import pytest
from django.core import signing
from django.db.models import F, Q, QuerySet
from hypothesis import given
from hypothesis import strategies as st

from django_dbqueue.bulk.asking import SALT, AsBulkAction
from django_dbqueue.bulk.chosen import Chosen, Unreadable
from django_dbqueue.fields import DbNow
from django_dbqueue.operate.orders import in_state
from django_dbqueue.states import Status
from tests.kit.examples import examples
from tests.queueapp.models import ArchivedKept, Everything, Note

THEN = datetime(2026, 11, 26, 12, 30, 0, 123456, tzinfo=UTC)
LATER = datetime(2026, 11, 27, tzinfo=UTC)
MOMENTS = st.datetimes(min_value=datetime(2000, 1, 1), timezones=st.just(UTC))
BOUNDS = st.dictionaries(st.sampled_from(["from", "until"]), MOMENTS, min_size=1)
CHOSEN = st.builds(
    Chosen,
    st.none() | st.sampled_from(Status),
    st.text(max_size=20),
    st.text(max_size=16),
    st.dictionaries(st.sampled_from(["created_at", "failed_at", "finished_at"]), BOUNDS),
)


def in_list(rows, state=None):
    return Chosen.in_list(in_state(rows, state))


@pytest.mark.django_db
@pytest.mark.parametrize("state", [None, *Status])
def test_the_filters_of_a_list_are_read_off_its_rows(state):
    rows = QuerySet(Note).filter(queue="q", failure="abc").order_by("-pk")
    rows = rows.filter(failed_at__gte=THEN).filter(failed_at__lte=LATER)
    times = {"failed_at": {"from": THEN, "until": LATER}}
    assert in_list(rows, state) == Chosen(state, "q", "abc", times)
    assert in_list(QuerySet(Note).all(), state) == Chosen(state)
    old = QuerySet(ArchivedKept).filter(status=Status.DONE, finished_at__lte=THEN)
    assert Chosen.in_list(old) == Chosen(Status.DONE, times={"finished_at": {"until": THEN}})


@pytest.mark.django_db
@pytest.mark.parametrize(
    "rows",
    [
        lambda rows: rows.filter(pk__in=[1, 2]),
        lambda rows: rows.filter(pk__gt=7),
        lambda rows: rows.filter(text="a text"),
        lambda rows: rows.filter(queue__startswith="q"),
        lambda rows: rows.filter(queue="q").filter(queue="r"),
        lambda rows: rows.filter(Q(queue="q") | Q(queue="r")),
        lambda rows: rows.exclude(queue="q"),
        lambda rows: rows.filter(created_at__gt=THEN),
        lambda rows: rows.filter(created_at__gte=THEN).filter(created_at__gte=LATER),
        lambda rows: rows.filter(retry_at__isnull=True),
        lambda rows: rows.filter(status__in=[Status.READY]),
        lambda rows: rows.filter(status=9),
        lambda rows: rows.none(),
        lambda rows: rows.distinct(),
        lambda rows: rows[:5],
        lambda rows: rows.extra(where=["1 = 1"]),
    ],
)
def test_what_cannot_be_said_is_nothing_that_is_chosen(rows):
    assert Chosen.in_list(rows(QuerySet(Note).all())) is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    "asked",
    [{"status": 4}, {"queue": "q"}, {"failed_at__gte": THEN}, {"failed_at__isnull": True}],
)
def test_a_column_of_another_table_is_none_of_the_jobs(asked):
    rows = QuerySet(Everything).filter(**{f"an_owner__{name}": asked[name] for name in asked})
    assert Chosen.in_list(rows) is None


@pytest.mark.django_db
@pytest.mark.parametrize("asked", [{"queue": F("dedup_key")}, {"created_at__gte": DbNow()}])
def test_what_the_database_works_out_is_nothing_that_is_chosen(asked):
    assert Chosen.in_list(QuerySet(Note).filter(**asked)) is None


def test_it_is_stored_as_people_read_it():
    times = {"created_at": {"from": THEN}}
    assert Chosen(Status.BURIED, "mail", times=times).stored() == {
        "state": "buried",
        "queue": "mail",
        "created_at": {"from": "2026-11-26T12:30:00.123456+00:00"},
    }
    assert Chosen().stored() == {}


@examples(100)
@given(CHOSEN)
def test_what_is_stored_is_read_again(chosen):
    assert Chosen.read(chosen.stored()) == chosen


@pytest.mark.parametrize(
    "stored",
    [
        *(None, 7, "buried", ["state"], {"state": "odd"}, {"other": "q"}, {"state": ["odd"]}),
        *(
            {"failed_at": 7},
            {"failed_at": {"from": "soon"}},
            {"failed_at": {"later": "2026-01-01"}},
        ),
    ],
)
def test_what_says_nothing_is_refused(stored):
    with pytest.raises(Unreadable):
        Chosen.read(stored)


class ReadsFromAReplica:
    def db_for_read(self, model, **_hints):
        return "replica"

    def db_for_write(self, model, **_hints):
        return "default"


@pytest.mark.django_db
def test_the_rows_of_a_list_that_is_read_from_a_replica_are_changed_where_they_are_written(
    settings,
):
    settings.DATABASE_ROUTERS = [ReadsFromAReplica()]
    for rows in (Note.objects.filter(queue="q"), Note.objects.using("default")):
        offer = AsBulkAction().offer("kick", rows)
        assert signing.loads(offer.token, salt=SALT)["database"] == "default"
