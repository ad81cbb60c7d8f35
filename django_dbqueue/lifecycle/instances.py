"""What of the project's happens when an instance is made, or an attribute of one is assigned."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import getattr_static
from typing import Any

from django.db import models
from django.db.models.fields.related_descriptors import ForeignKeyDeferredAttribute
from django.db.models.query_utils import DeferredAttribute

# What assigns an attribute and does nothing more.
QUIET = {DeferredAttribute, ForeignKeyDeferredAttribute}


def is_quiet(model: type[Any], names: Iterable[str]) -> bool:
    """Whether nothing of the project's happens when Django makes an instance of a row."""
    ways = ("__init__", "__new__", "__setattr__")
    return (
        all(getattr(model, way) is getattr(models.Model, way) for way in ways)
        and model.from_db.__func__ is models.Model.from_db.__func__  # type: ignore[attr-defined]
        and all(type(getattr_static(model, name)) in QUIET for name in names)
    )


def is_assigned(model: type[Any]) -> bool:
    """Whether nothing of the project's happens when a column's attribute is assigned."""
    names = [one.attname for one in model._meta.concrete_fields]
    is_usual = getattr_static(model, "__setattr__") is object.__setattr__
    return is_usual and all(type(getattr_static(model, name)) in QUIET for name in names)
