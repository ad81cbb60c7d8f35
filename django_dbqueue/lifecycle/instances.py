"""What of the project's happens when an instance is made, or an attribute of one is assigned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from inspect import getattr_static
from typing import Any

from django.db import models
from django.db.models.base import ModelState
from django.db.models.fields import NOT_PROVIDED
from django.db.models.fields.related_descriptors import ForeignKeyDeferredAttribute
from django.db.models.query_utils import DeferredAttribute
from django.db.models.signals import post_init, pre_init

# What assigns an attribute and does nothing more.
QUIET = {DeferredAttribute, ForeignKeyDeferredAttribute}
# The columns that each queue table has.
OURS = frozenset(
    {
        *("id", "queue", "priority", "status", "owner", "dequeued_time", "retry_at", "attempts"),
        *("crashes", "losses", "time_to_run", "created_at", "finished_at", "expires_at"),
        *("failure", "failed_at", "dedup_key"),
    }
)


def is_quiet(model: type[Any], names: Iterable[str]) -> bool:
    """Whether nothing of the project's happens when Django makes an instance of a row."""
    return (
        _is_made_quietly(model)
        and _is_usual(model, "__new__")
        and is_assigned(model, names)
        and model.from_db.__func__ is models.Model.from_db.__func__  # type: ignore[attr-defined]
    )


def is_assigned(model: type[Any], names: Iterable[str]) -> bool:
    """Whether nothing of the project's happens when attributes of columns are assigned."""
    return _is_usual(model, "__setattr__") and all(
        type(getattr_static(model, name)) in QUIET for name in names
    )


def _is_usual(model: type[Any], way: str) -> bool:
    return getattr_static(model, way) is getattr_static(models.Model, way)


def _is_made_quietly(model: type[Any]) -> bool:
    """Whether no class that it inherits from, before or after ours, has an ``__init__``."""
    ways = [vars(one)["__init__"] for one in model.__mro__ if "__init__" in vars(one)]
    known = (models.Model.__init__, object.__init__)
    return all(way in known or getattr(way, "is_quiet", False) for way in ways)


@dataclass(frozen=True)
class Blank:
    """The attributes of a new instance of a model to which nobody has given anything."""

    same: dict[str, Any]  # in the order of the columns
    asked: tuple[tuple[str, Any], ...]  # the fields that are asked for their default each time
    relations: dict[str, str]  # for which instances may be given, with the names of their columns
    names: frozenset[str]  # that may be given


@lru_cache(maxsize=1000)
def blank_of(model: Any) -> Blank | None:
    """None where Django has to make its instances."""
    meta = model._meta
    fields = meta.concrete_fields
    is_whole = not (meta.abstract or meta.parents or any(one.generated for one in fields))
    attributes = [one.attname for one in fields]
    if not (is_whole and _is_made_quietly(model) and is_assigned(model, attributes)):
        return None
    same = {one.attname: one.get_default() if _is_same(one) else None for one in fields}
    asked = tuple((one.attname, one) for one in fields if not _is_same(one))
    relations = {one.name: one.attname for one in fields if one.is_relation}
    return Blank(same, asked, relations, frozenset([*attributes, *relations]))


def _is_same(field: Any) -> bool:
    """Whether its default is one object for ever: that of a column of ours, or the database's. The
    project's own may be changed, as by a test."""
    has_own = field.default is not NOT_PROVIDED
    if type(field).get_default is not models.Field.get_default or (
        has_own and callable(field.default)
    ):
        return False
    return field.name in OURS or (not has_own and field.db_default is not NOT_PROVIDED)


def fill(job: Any, given: dict[str, Any]) -> bool:
    """Give a new instance its attributes, as Django's ``Model.__init__`` does in several times as
    long. False, and nothing was done, where only that knows how."""
    model: Any = type(job)
    blank = blank_of(model)
    if blank is None or not given.keys() <= blank.names:
        return False
    if (pre_init.receivers or post_init.receivers) and _is_heard(model):
        return False
    related = blank.relations and [name for name in blank.relations if name in given]
    if related and any(blank.relations[name] in given for name in related):
        return False
    attributes = vars(job)
    attributes["_state"] = ModelState()
    attributes.update(blank.same)
    for name, field in blank.asked:
        if name not in given:
            attributes[name] = field.get_default()
    if related:
        given = dict(given)
        for name in related:
            setattr(job, name, given.pop(name))
    attributes.update(given)
    return True


def _is_heard(model: type[Any]) -> bool:
    return pre_init.has_listeners(model) or post_init.has_listeners(model)
