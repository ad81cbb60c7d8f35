"""A new job has the attributes that Django's own ``__init__`` would have given it."""

import pickle
from typing import Any

import pytest
from django.db import models
from django.db.models.expressions import DatabaseDefault
from django.db.models.signals import post_init, pre_init
from django.test.utils import isolate_apps

from django_dbqueue.lifecycle.instances import blank_of
from django_dbqueue.models import Job
from testproject.shop.models import Photo, Thumbnail
from tests.queueapp.models import Everything, Note, Uuid

pytestmark = pytest.mark.any_database


def as_django_makes_it(model, *args, **columns):
    job = model.__new__(model)
    models.Model.__init__(job, *args, **columns)
    return job


def shown(job):
    """Its attributes in their order, but for what is new in each."""
    state = vars(job)["_state"]
    values = [(name, text_of(value)) for name, value in vars(job).items() if name != "_state"]
    return values, state.adding, state.db, dict(state.fields_cache)


def text_of(value):
    return type(value) if isinstance(value, DatabaseDefault) else repr(value)


GIVEN: list[tuple[type[Any], dict[str, Any]]] = [
    (Note, {}),
    (Note, {"text": "a", "priority": 5}),
    (Note, {"pk": 7}),
    (Note, {"id": None, "status": 4, "errors": [1]}),
    (Thumbnail, {}),
    (Thumbnail, {"photo_id": 3, "png": b"x"}),
    (Thumbnail, {"photo": None}),
    (Thumbnail, {"photo": Photo(pk=3), "queue": "b"}),
    (Thumbnail, {"photo": Photo(pk=3), "photo_id": 4}),
    (Uuid, {"id": "mine"}),
]


@pytest.mark.parametrize(("model", "columns"), GIVEN, ids=repr)
def test_its_attributes_are_those_of_django(model, columns):
    assert shown(model(**columns)) == shown(as_django_makes_it(model, **columns))


def test_it_is_made_without_django(monkeypatch):
    monkeypatch.setattr(models.Model, "__init__", None)
    assert Note(text="a").text == "a"
    assert Thumbnail(photo=None).photo_id is None


def test_each_has_defaults_of_its_own():
    assert Note().errors is not Note().errors
    assert Uuid().pk != Uuid().pk
    assert Note()._state is not Note()._state


def test_a_default_is_made_only_where_it_is_needed(monkeypatch):
    monkeypatch.setattr(Uuid._meta.get_field("id"), "_get_default", lambda: 1 / 0)
    assert Uuid(id="mine").pk == "mine"
    with pytest.raises(ZeroDivisionError):
        Uuid()


def test_a_default_that_is_changed_is_heeded(monkeypatch):
    monkeypatch.setattr(Note._meta.get_field("seconds"), "default", 3.5)
    assert Note().seconds == 3.5


def test_a_column_that_is_not_there_is_refused():
    with pytest.raises(TypeError, match="unexpected keyword"):
        Thumbnail(colour="red")


def test_values_may_stand_in_the_order_of_the_columns():
    assert Note(5, "a queue").queue == "a queue"


@pytest.mark.parametrize("signal", [pre_init, post_init])
def test_who_listens_to_new_instances_hears_of_them(signal):
    heard = []

    def hear(sender: Any, **_: Any) -> None:
        heard.append(sender)

    signal.connect(hear, sender=Note)
    try:
        Note(text="a")
        Uuid()
    finally:
        signal.disconnect(hear, sender=Note)
    assert heard == [Note]


def test_an_init_of_the_project_is_called():
    class Mixin:
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.seen = True

    with isolate_apps("tests.queueapp"):

        class Before(Mixin, Job):
            class Meta(Job.Meta):
                app_label = "queueapp"

        class After(Job, Mixin):
            class Meta(Job.Meta):
                app_label = "queueapp"

    for model in (Before, After):
        assert model().seen
        assert blank_of(model) is None


def test_attributes_that_do_more_are_assigned_by_django():
    class Loud(Job):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            vars(self).setdefault("told", []).append(name)

        class Meta(Job.Meta):
            app_label = "queueapp"
            abstract = True

    with isolate_apps("tests.queueapp"):

        class Louder(Loud):
            class Meta(Job.Meta):
                app_label = "queueapp"

    assert "queue" in vars(Louder())["told"]
    assert blank_of(Everything) is None  # a column of it is worked out by the database


def test_it_can_be_pickled():
    assert pickle.loads(pickle.dumps(Note(text="a"))).text == "a"
