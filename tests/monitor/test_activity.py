"""Activity, read back from the admin's log."""

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.models import ContentType

from django_dbqueue.mail.models import Email
from django_dbqueue.models import Queue
from django_dbqueue.monitor import activity as module
from django_dbqueue.monitor.activity import activity, without_filters
from django_dbqueue.operate.recording import record, record_of
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def anna():
    user = User.objects.create_user("anna", is_staff=True)
    yield user
    user.delete()


def entry(user, model, said, key=None):
    kind = ContentType.objects.get_for_model(model)
    return LogEntry.objects.create(
        user=user,
        content_type=kind,
        object_id=key,
        object_repr=f"a {kind.model}",
        action_flag=CHANGE,
        change_message=said,
    )


def test_the_last_ones_come_first_and_others_models_are_none_of_ours(anna):
    entry(anna, Note, "Bury: 2 changed; rows: 2; filters: queue=q1")
    entry(anna, Group, "renamed")
    entry(anna, Queue, "Paused queueapp.note; rows: 1; filters: none", "7")
    first, second = activity().found
    assert (first.model, first.said, first.key) == (Queue, "Paused queueapp.note; rows: 1", "7")
    assert (second.person, second.about, second.filters) == ("anna", "a note", "queue=q1")
    assert first.filters == second.key == ""
    assert first.moment >= second.moment


def test_nobody_is_shown_what_was_done_to_what_they_may_not_see(anna):
    entry(anna, Note, "one")
    entry(anna, Email, "two")
    assert [one.said for one in activity(may_see=lambda model: model is Email).found] == ["two"]
    assert activity(may_see=lambda _: False).found == []


def test_a_look_goes_on_where_the_last_one_ended(anna):
    for number in range(5):
        entry(anna, Note, str(number))
    seen, before = [], None
    while True:
        page = activity(2, before)
        seen.append([one.said for one in page.found])
        before = page.before
        if before is None:
            break
    assert seen == [["4", "3"], ["2", "1"], ["0"]]


def test_a_look_goes_through_so_many_entries_of_the_log_and_says_where_it_stopped(
    anna, monkeypatch
):
    monkeypatch.setattr(module, "LOOKED_THROUGH", 3)
    entry(anna, Note, "old")
    for _ in range(4):
        entry(anna, Group, "of no concern")
    page = activity()
    assert page.found == []
    assert [one.said for one in activity(before=page.before).found] == ["old"]
    assert activity(before=page.before).before is None


ODD = "deploy; filters: nothing; database: mars"


@pytest.mark.parametrize("odd", [ODD, "; filters: a; filters: b", "; database: x; filters: y"])
def test_what_somebody_writes_is_not_read_as_what_we_wrote(anna, odd):
    """A reason, the name of a queue, a search."""
    note = Note.objects.create()
    record(anna.pk, Note, [note], f"Paused it: {odd}", filters=f"q={odd}")
    record_of(anna.pk, Queue, odd, f"Paused {odd}", using="mars")
    several, one = activity().found
    assert (several.database, several.filters) == ("mars", "")
    assert several.said.count("filters") == odd.count("filters")
    assert (one.database, one.filters.startswith("q=")) == ("default", True)
    assert one.said.startswith("Paused it: ")
    assert one.said.endswith("; rows: 1")
    assert one.filters.count("filters") == odd.count("filters")
    hidden = [without_filters(entry).change_message for entry in LogEntry.objects.all()]
    assert not any("q=" in said for said in hidden)
    assert all(said.count("filters") == odd.count("filters") for said in hidden)
