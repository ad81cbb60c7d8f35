"""A bulk action does its verb to all jobs that were chosen, in batches, each noted with what came
of it."""

import gc
import tracemalloc
from datetime import UTC, datetime

import pytest
from django.contrib.admin.models import DELETION, LogEntry
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.db.utils import OperationalError

from django_dbqueue.bulk import running
from django_dbqueue.bulk.chosen import Chosen, rows_of
from django_dbqueue.bulk.models import Asker, BulkAction
from django_dbqueue.bulk.verbs import UnknownVerb
from django_dbqueue.bulk.words import progress
from django_dbqueue.monitor.overview import overview
from django_dbqueue.operate import walking
from django_dbqueue.operate.moments import now_of
from django_dbqueue.states import Status
from django_dbqueue.testing import virtual_clock
from tests.kit.bounds import limits
from tests.kit.bulk import TABLE, asked, entries, rows, worked_off
from tests.kit.failures import failed, kind
from tests.kit.inline_worker import drain, work_off
from tests.kit.jobs import buried, claim_one, claimed, done, fresh, overwrite
from tests.queueapp.models import Note, Shared, Uuid

pytestmark = pytest.mark.usefixtures("db_rows")
FAILED = Chosen(state=Status.BURIED)
FAR = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(running, "BATCH_ROWS", 4)


@pytest.fixture
def chief():
    user = User.objects.create_superuser("chief")
    yield user
    user.delete()


@pytest.fixture
def before_each_batch(monkeypatch):
    """What a test has done at the touches of a run, by their number."""
    monkeypatch.setattr(running, "TOUCH_SECONDS", 0)
    touch, at, count = BulkAction.touch, {}, []

    def touched(row):
        count.append(row)
        at.pop(len(count), lambda: None)()
        touch(row)

    monkeypatch.setattr(BulkAction, "touch", touched)
    return at


def numbers(row):
    return row.total, row.seen, row.counts["changed"], row.counts["skipped"]


def states(model=Note):
    return sorted(model.objects.values_list("status", flat=True))


# --- what is done -------------------------------------------------------------------------------


def test_all_that_match_are_changed_and_the_row_says_how_many():
    rows(11, queue="q")
    other = Note.objects.create()
    row = worked_off(asked("bury", Chosen(queue="q")))
    assert row.state == "done"
    assert numbers(row) == (11, 11, 11, 0)
    assert Note.objects.filter(queue="q", status=Status.BURIED).count() == 11
    assert fresh(other).status == Status.READY


@pytest.mark.parametrize(
    ("verb", "values", "columns"),
    [
        ("kick", {}, {"status": Status.READY}),
        ("kick", {"time_to_run": 77}, {"status": Status.READY, "time_to_run": 77}),
        ("move", {"queue": "other"}, {"queue": "other", "status": Status.BURIED}),
        ("prioritize", {"priority": 7}, {"priority": 7, "status": Status.BURIED}),
    ],
)
def test_each_verb_does_what_it_does_in_the_admin(verb, values, columns):
    rows(6, Status.BURIED)
    row = worked_off(asked(verb, FAILED, **values))
    assert numbers(row) == (6, 6, 6, 0)
    assert Note.objects.filter(**columns).count() == 6


def test_jobs_are_put_off_to_a_moment():
    due = datetime(2100, 1, 1, tzinfo=UTC)
    rows(3)
    row = worked_off(asked("reschedule", due=due))
    assert row.values == {"due": "2100-01-01T00:00:00+00:00"}
    assert Note.objects.filter(status=Status.DELAYED, retry_at=due).count() == 3


def test_a_verb_that_takes_jobs_in_several_states_goes_through_each():
    rows(5)
    rows(5, Status.DELAYED, retry_at=datetime(2100, 1, 1, tzinfo=UTC))
    rows(5, Status.BURIED)
    held = claimed(queue="apart")
    kept = done(queue="apart")
    row = worked_off(asked("bury"))
    assert row.counts["changed"] == 11
    assert states() == [Status.DONE] + [Status.BURIED] * 16
    assert (fresh(held).status, fresh(kept).status) == (Status.BURIED, Status.DONE)


def test_what_waits_for_its_key_is_among_all_and_not_among_the_delayed():
    for _ in range(3):
        Shared.objects.create(tenant="one")
    Shared.objects.claim(limit=2)
    Shared.objects.claim()  # which has the third one wait
    assert states(Shared) == [Status.CLAIMED, Status.CLAIMED, Status.DELAYED]
    assert worked_off(asked("prioritize", Chosen(Status.DELAYED), Shared, priority=5)).seen == 0
    assert worked_off(asked("prioritize", Chosen(), Shared, priority=6)).counts["changed"] == 1
    assert worked_off(asked("bury", Chosen(), Shared)).counts["changed"] == 3
    assert states(Shared) == [Status.BURIED] * 3


def test_a_queue_that_is_full_ends_it_and_says_so():
    rows(20, queue="from")
    with limits("queueapp.note:to", max_length=6):
        row = worked_off(asked("move", Chosen(queue="from"), queue="to"))
    assert row.state == "done"
    assert numbers(row) == (20, 12, 6, 6)
    assert row.counts["no_room"] == 6


def test_what_is_buried_takes_no_room_in_a_queue_that_is_full():
    rows(3, queue="from")
    rows(8, Status.BURIED, queue="from")
    with limits("queueapp.note:to", max_length=1):
        Note.objects.create(queue="to")
        row = worked_off(asked("move", Chosen(queue="from"), queue="to"))
    assert numbers(row) == (11, 11, 8, 3)
    assert Note.objects.filter(queue="to", status=Status.BURIED).count() == 8


def test_what_becomes_ready_in_the_meantime_is_not_passed_over(before_each_batch):
    rows(8, Status.DELAYED, retry_at=FAR)
    rows(8)

    def promote():
        due = Note.objects.filter(status=Status.DELAYED)[:2].values_list("pk", flat=True)
        QuerySet(Note).filter(pk__in=list(due)).update(status=Status.READY, retry_at=None)

    before_each_batch.update(dict.fromkeys(range(1, 20), promote))
    worked_off(asked("cancel"))
    assert not Note.objects.exists()


def test_what_waits_for_the_key_of_what_is_cancelled_is_cancelled_too():
    for name in "abcdef":
        rows(7, model=Shared, tenant=name, concurrency_key=name)
    held = []
    while some := Shared.objects.claim(limit=100):
        held += some
    Shared.objects.pause()
    for job in held:
        job.complete()
    assert {Status.READY, Status.DELAYED} <= set(states(Shared))
    worked_off(asked("cancel", model=Shared))
    assert not Shared.objects.exclude(status=Status.DONE).exists()


@pytest.mark.parametrize("touch", range(2, 9))
def test_what_a_claim_parks_in_the_meantime_is_cancelled_too(before_each_batch, touch):
    for name in "ab":
        rows(12, model=Shared, tenant=name, concurrency_key=name)
    held = []
    before_each_batch[touch] = lambda: held.extend(Shared.objects.claim(limit=10))
    row = worked_off(asked("cancel", model=Shared))
    assert (row.state, row.total) == ("done", 24)
    assert not Shared.objects.filter(status__in=[Status.READY, Status.DELAYED]).exists()


def test_keys_that_are_no_numbers_are_noted_as_well(chief):
    rows(6, model=Uuid)
    row = worked_off(asked("bury", model=Uuid, user=chief))
    assert (row.state, row.counts["changed"]) == ("done", 6)
    assert entries()[-1].startswith("Bury: 6 changed")


# --- which are meant ----------------------------------------------------------------------------


def test_what_came_or_failed_after_the_question_was_shown_is_left():
    meant, other = failed(), failed()
    row = asked("kick", Chosen(Status.BURIED, failure=kind().fingerprint))
    Note.objects.filter(pk=other.pk).kick()
    again = claim_one()
    again.bury("once more")
    late = failed()
    assert numbers(worked_off(row)) == (1, 1, 1, 0)
    assert fresh(meant).status == Status.READY
    assert fresh(late).status == fresh(other).status == Status.BURIED


def test_what_is_retried_fails_at_once_and_is_not_retried_for_ever(before_each_batch):
    rows(10, Status.BURIED)

    def fail_all():
        for job in Note.objects.claim(100):
            job.bury("again")

    before_each_batch.update(dict.fromkeys(range(1, 20), fail_all))
    assert numbers(worked_off(asked("kick", FAILED))) == (10, 10, 10, 0)


def test_what_is_delayed_and_fails_once_more_is_not_retried_for_ever(before_each_batch):
    rows(10, Status.DELAYED, retry_at=datetime(2020, 1, 1, tzinfo=UTC))
    rows(1, Status.DELAYED, retry_at=FAR)

    def fail_all():
        for job in Note.objects.claim(100):
            job.fail("again")

    before_each_batch.update(dict.fromkeys(range(1, 20), fail_all))
    assert worked_off(asked("kick", Chosen(Status.DELAYED))).counts["changed"] == 11
    assert {len(job.errors) for job in Note.objects.all()} <= {0, 1}


def test_jobs_are_chosen_by_times_and_by_what_failed():
    old, new = buried(), buried()
    overwrite(old, failed_at=datetime(2020, 1, 1, tzinfo=UTC))
    until = {"failed_at": {"until": datetime(2021, 1, 1, tzinfo=UTC)}}
    assert worked_off(asked("kick", Chosen(Status.BURIED, times=until))).counts["changed"] == 1
    assert (fresh(old).status, fresh(new).status) == (Status.READY, Status.BURIED)


def test_it_does_not_take_itself():
    waiting = asked("kick", FAILED)
    BulkAction.objects.move("apart")
    row = asked("cancel", model=BulkAction)
    work_off(f"{TABLE}:default")
    assert fresh(row).state == "done"
    assert fresh(row).counts["changed"] == 1
    assert not BulkAction.objects.filter(pk=waiting.pk).exists()


def test_a_long_walk_keeps_nothing_of_what_it_has_left():
    rows(2000)
    [keyset] = Chosen().keysets(rows_of(Note, "default"), now_of("default"), [Status.READY])
    keyset = keyset.of(keyset.queryset.only("pk", *keyset.order.names))
    kept = []
    tracemalloc.start()
    try:
        for number, _page in enumerate(walking.pages(keyset, 10)):
            if number in {30, 190}:
                gc.collect()
                kept.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    [early, late] = kept
    assert late - early < 130_000  # a window's keys and words are some 2,000


# --- how it ends --------------------------------------------------------------------------------


def test_it_stops_when_it_is_cancelled_and_the_log_tells_what_was_done(before_each_batch, chief):
    rows(20)
    row = asked("bury", user=chief)
    before_each_batch[5] = lambda: BulkAction.objects.filter(pk=row.pk).cancel()
    work_off(TABLE)
    assert not BulkAction.objects.exists()
    assert states() == [Status.READY] * 12 + [Status.BURIED] * 8
    [entry] = entries()
    assert entry.startswith(f"Bury: 8 changed; bulk action {row.pk}; rows: 8 (")


def test_it_goes_on_where_it_was_when_it_is_retried(before_each_batch, chief):
    rows(20)
    row = asked("bury", user=chief)
    before_each_batch[5] = lambda: BulkAction.objects.filter(pk=row.pk).bury()
    assert worked_off(row).state == "buried"
    assert numbers(fresh(row)) == (20, 8, 8, 0)
    BulkAction.objects.filter(pk=row.pk).kick()
    assert numbers(worked_off(row)) == (20, 20, 20, 0)
    [entry] = entries()
    assert entry.startswith(f"Bury: 20 changed; bulk action {row.pk}; rows: 20 (")


def test_an_error_of_the_database_is_no_end_of_it(before_each_batch, chief):
    rows(20)
    row = asked("prioritize", user=chief, priority=5)

    def fail():
        raise OperationalError("the server went away")

    before_each_batch[4] = fail
    with virtual_clock() as clock:
        drain(clock, TABLE)
    row = fresh(row)
    assert (row.state, row.attempts) == ("done", 2)
    assert numbers(row) == (20, 20, 20, 0)
    assert len(entries()) == 1


def test_another_worker_that_has_it_goes_on_and_this_one_stops(before_each_batch, chief):
    rows(20)
    row = asked("bury", user=chief)
    before_each_batch[5] = lambda: overwrite(row, owner="another.1")
    work_off(TABLE)
    assert fresh(row).status == Status.CLAIMED
    assert numbers(fresh(row)) == (20, 8, 8, 0)
    assert entries() == []  # the other one writes it


def test_what_is_taken_away_in_the_middle_of_a_batch_is_not_noted(monkeypatch):
    monkeypatch.setattr(running, "TOUCH_SECONDS", 0)
    rows(20)
    row, touch = asked("bury"), BulkAction.touch

    def touched(run):
        touch(run)
        if run.seen == 8:
            overwrite(row, owner="another.1")

    monkeypatch.setattr(BulkAction, "touch", touched)
    work_off(TABLE)
    assert numbers(fresh(row)) == (20, 8, 8, 0)
    assert Note.objects.buried().count() == 8


def test_states_that_are_done_are_not_gone_through_again(before_each_batch):
    rows(8)
    rows(8, Status.DELAYED, retry_at=datetime(2100, 1, 1, tzinfo=UTC))
    row = asked("prioritize", priority=5)

    def fail():
        raise OperationalError("the server went away")

    before_each_batch[5] = fail
    with virtual_clock() as clock:
        drain(clock, TABLE)
    assert fresh(row).attempts == 2
    assert numbers(fresh(row)) == (16, 16, 16, 0)


def test_what_moves_ahead_of_it_and_is_met_again_is_no_more_than_all():
    rows(7, Status.DELAYED, retry_at=datetime(2090, 1, 1, tzinfo=UTC))
    rows(1, Status.DELAYED, retry_at=FAR)
    row = worked_off(asked("reschedule", due=datetime(2095, 1, 1, tzinfo=UTC)))
    assert row.counts["changed"] == 8
    assert row.seen > row.total
    assert "8 of 8 (100 %)" in progress(row)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"target": "queueapp.gone"}, "there is no table 'queueapp.gone' any more"),
        ({"target": "nonsense"}, "there is no table 'nonsense' any more"),
        ({"database": "gone"}, "there is no database 'gone' any more"),
        ({"verb": "gone"}, "no app that is installed knows the verb 'gone'"),
        ({"choice": {"state": "odd"}}, "which jobs are meant cannot be read"),
        ({"choice": ["odd"]}, "which jobs are meant cannot be read"),
        ({"choice": {"failed_at": {"until": "soon"}}}, "which jobs are meant cannot be read"),
        ({"choice": {"owner": {}}}, "which jobs are meant cannot be read"),
        ({"values": {"due": "soon"}}, "soon"),
    ],
)
def test_what_is_not_there_any_more_is_named(columns, why):
    row = asked("kick")
    BulkAction.objects.filter(pk=row.pk).update(**columns)
    rows(2, Status.BURIED)
    row = worked_off(row)
    assert (row.state, row.attempts) == ("buried", 1)
    assert why in row.last_error
    assert states() == [Status.BURIED] * 2


def test_a_table_that_was_dropped_is_named(monkeypatch):
    row = asked("kick")
    monkeypatch.setattr(Note._meta, "db_table", "queueapp_dropped")
    row = worked_off(row)
    assert (row.state, row.attempts) == ("buried", 1)
    assert "there is no table 'queueapp.note' on 'default' any more" in row.last_error


# --- what is told -------------------------------------------------------------------------------


def test_the_log_has_one_entry_in_the_name_of_the_person(chief):
    rows(30, queue="q")
    row = worked_off(asked("cancel", Chosen(Status.READY, "q"), user=chief))
    [entry] = LogEntry.objects.all()
    assert entry.user == chief
    assert entry.action_flag == DELETION
    assert entry.object_repr == "30 notes"
    said = f"Cancel: 30 changed; bulk action {row.pk}; rows: 30 ("
    assert entry.change_message.startswith(said)
    assert entry.change_message.count(",") == 20
    assert entry.change_message.endswith("; filters: queue=q&state=ready")


def test_one_job_is_named_in_the_log_whatever_its_own_words_are_made_of(chief, monkeypatch):
    monkeypatch.setattr(Note, "__str__", lambda note: f"of {note.created_at:%Y}")
    job = Note.objects.create()
    assert worked_off(asked("bury", user=chief)).state == "done"
    assert LogEntry.objects.get().object_repr == f"note {job.pk}"


def test_a_person_who_is_gone_by_then_is_in_nobodys_way(chief):
    rows(3)
    row = asked("bury", user=chief)
    User.objects.all().delete()
    assert worked_off(row).state == "done"
    assert entries() == []


def test_nothing_is_logged_where_nothing_was_changed(chief):
    assert worked_off(asked("kick", user=chief)).state == "done"
    assert entries() == []


def test_while_it_runs_the_overview_says_how_far_it_is(before_each_batch):
    rows(20)
    row, said = asked("bury"), []
    before_each_batch[5] = lambda: said.extend(overview().all_under_way)
    worked_off(row)
    assert said == [f"bulk action {row.pk}: 8 of 20 (40 %): 8 changed"]


def test_what_is_asked_for_twice_is_done_once():
    now = datetime(2030, 1, 1, tzinfo=UTC)
    asker = Asker("7", "anna")
    first = BulkAction.ask("bury", Note, "default", FAILED, now, asker, {})
    second = BulkAction.ask("bury", Note, "default", FAILED, now, asker, {})
    other = BulkAction.ask("kick", Note, "default", FAILED, now, asker, {})
    assert (first[1], second[1], other[1]) == (True, False, True)
    assert first[0].pk == second[0].pk


def test_a_verb_that_nobody_knows_is_refused_when_it_is_asked_for():
    with pytest.raises(UnknownVerb):
        asked("delete")
