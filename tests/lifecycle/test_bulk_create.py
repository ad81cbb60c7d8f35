"""``bulk_create`` writes what ``create`` writes, by a statement of its own."""

from datetime import timedelta

import pytest
from django.db import DataError, IntegrityError, connection
from django.db.models import Value
from django.db.models.functions import Lower
from django.test.utils import CaptureQueriesContext

from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.fields import DbNow
from testproject.shop.models import Photo, Thumbnail
from tests.queueapp.models import Note, Unique

pytestmark = pytest.mark.usefixtures("db_rows")

NOT_COMPARED = {"id", "created_at"}
TEXTS = ["", "plain", 'it\'s 100 % \\ of "it"', "wörter", "%s", "1", "a\nb"]
BODIES = [b"", b"\xff\x00'%s\\\r\n", b"plain"]


def written(model):
    rows = model.objects.order_by("pk").values()
    return [{name: row[name] for name in sorted(row.keys() - NOT_COMPARED)} for row in rows]


def both_ways(model, columns):
    for one in columns:
        model.objects.create(**one)
    created = written(model)
    model.objects.all().delete()
    model.objects.bulk_create([model(**one) for one in columns])
    return created, written(model)


@pytest.mark.parametrize("texts", [TEXTS, *([text] * 3 for text in TEXTS)], ids=repr)
def test_text_is_written_as_create_writes_it(texts):
    created, in_bulk = both_ways(Note, [{"text": text} for text in texts])
    assert in_bulk == created


@pytest.mark.parametrize("bodies", [BODIES, *([body] * 2 for body in BODIES)], ids=repr)
def test_bytes_are_written_as_create_writes_them(bodies):
    created, in_bulk = both_ways(TubeJob, [{"body": body} for body in bodies])
    assert [bytes(row.pop("body")) for row in in_bulk] == bodies
    assert [bytes(row.pop("body")) for row in created] == bodies
    assert in_bulk == created


@pytest.mark.parametrize("options", [{"priority": 7}, {"time_to_run": 9}, {"dedup_key": "only"}])
def test_an_option_of_one_job_is_not_that_of_another(options):
    created, in_bulk = both_ways(Note, [{}, options, {"text": "last"}])
    assert in_bulk == created


def test_a_time_that_the_database_is_to_work_out_is_worked_out():
    jobs = Note.objects.bulk_create([Note(retry_at=DbNow(plus=n)) for n in (60, 90.5)] + [Note()])
    late, later, ready = Note.objects.order_by("pk")
    assert [late.state, later.state, ready.state] == ["delayed", "delayed", "ready"]
    assert timedelta(seconds=30) < later.retry_at - late.retry_at < timedelta(seconds=31)
    assert [job.retry_at for job in jobs] == [late.retry_at, later.retry_at, None]


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite knows no lengths")
def test_what_is_too_long_is_refused_and_not_cut_off():
    [field] = [one for one in Note._meta.concrete_fields if one.name == "action"]
    too_long = "x" * (field.max_length + 1)
    for jobs in ([Note(action=too_long)], [Note(action=too_long), Note()]):
        with pytest.raises(DataError):
            Note.objects.bulk_create(jobs)
    with pytest.raises(DataError):
        Note.objects.enqueue_many([{"action": too_long}, {"action": "x"}])
    assert not Note.objects.exists()


def test_what_only_the_database_can_work_out_is_left_to_it():
    Note.objects.bulk_create([Note(text=Lower(Value("UP"))), Note(text="Plain")])
    assert [row.text for row in Note.objects.order_by("pk")] == ["up", "Plain"]


def test_each_job_gets_the_key_of_its_own_row():
    jobs = Note.objects.bulk_create(Note(text=str(number)) for number in range(2500))
    texts = dict(Note.objects.values_list("pk", "text"))
    assert [texts[job.pk] for job in jobs] == [str(number) for number in range(2500)]
    assert not any(job._state.adding for job in jobs)


def test_hundreds_of_jobs_are_one_insert_without_what_is_the_same_in_all():
    with CaptureQueriesContext(connection) as statements:
        TubeJob.objects.bulk_create(TubeJob(body=b"%d" % number) for number in range(400))
    inserts = [one["sql"] for one in statements if one["sql"].startswith("INSERT")]
    assert len(inserts) == 1
    assert "owner" not in inserts[0]


def test_batches_are_as_small_as_is_asked_for():
    with CaptureQueriesContext(connection) as statements:
        Note.objects.bulk_create((Note() for _ in range(5)), batch_size=2)
    assert len([one for one in statements if one["sql"].startswith("INSERT")]) == 3


def test_where_one_is_refused_nothing_is_written_and_no_job_has_a_key():
    jobs = [Unique(code=code) for code in (1, 2, 1)]
    with pytest.raises(IntegrityError):
        Unique.objects.bulk_create(jobs, batch_size=2)
    assert not Unique.objects.exists()
    assert [job.pk for job in jobs] == [None] * 3


def test_a_key_that_is_given_is_kept():
    given, _ = Note.objects.bulk_create([Note(pk=70_000), Note()])
    assert given.pk == 70_000
    assert Note.objects.count() == 2


@pytest.mark.parametrize("pictures", [[None, None], [b"png", None], [b"1", b"2"]], ids=repr)
def test_bytes_may_be_missing(pictures):
    photo = Photo.objects.create()
    created, in_bulk = both_ways(Thumbnail, [{"photo": photo, "png": png} for png in pictures])
    assert [row.pop("png") for row in in_bulk] == pictures
    assert [row.pop("png") for row in created] == pictures
    assert in_bulk == created


def test_a_job_of_a_row_that_is_not_saved_is_refused():
    with pytest.raises(ValueError, match="unsaved related object"):
        Thumbnail.objects.bulk_create([Thumbnail(photo=Photo())])


def test_a_row_that_was_saved_after_its_job_was_made_is_found():
    photo = Photo()
    job = Thumbnail(photo=photo)
    photo.save()
    Thumbnail.objects.bulk_create([job])
    assert Thumbnail.objects.get().photo_id == photo.pk
