"""A job's own columns as people read them, secrets masked."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.template.defaultfilters import filesizeformat

from ..models.job import JobColumns
from .masking import MASK, is_sensitive, masked

LONGEST = 20_000  # characters
LIFECYCLE = frozenset(field.name for field in JobColumns._meta.fields)


@dataclass(frozen=True)
class Argument:
    name: str
    value: str
    note: str = ""

    @property
    def is_long(self) -> bool:
        return len(self.value) > 80 or "\n" in self.value


def own_fields(model: type[models.Model]) -> list[Any]:
    """The columns that are not the lifecycle's, nor the key."""
    return [
        field
        for field in model._meta.concrete_fields
        if field.name not in LIFECYCLE and not field.primary_key
    ]


def arguments(job: Any, more: Collection[str] = ()) -> Iterator[Argument]:
    """``more`` adds names of what is sensitive."""
    for field in own_fields(type(job)):
        name = str(field.verbose_name)
        if is_sensitive(field.name, more):
            yield Argument(name, MASK)
        else:
            yield shown(name, _value(job, field), more)


def _value(job: Any, field: Any) -> Any:
    """Of a relation what its row calls itself, with the key."""
    key = getattr(job, field.attname)
    if not field.is_relation or key is None:
        return key
    try:
        other = getattr(job, field.name)
    except field.related_model.DoesNotExist:
        return f"{key} (which is not there any more)"
    return f"{other} ({field.related_model._meta.verbose_name} {key})"


def shown(name: str, value: Any, more: Collection[str]) -> Argument:
    if value is None:
        return Argument(name, "", "none")
    if isinstance(value, bytes | bytearray | memoryview):
        return Argument(name, "", f"{filesizeformat(len(value))} of binary data")
    if isinstance(value, dict | list):
        # Numbers stay exact: no browser reads them.
        text = json.dumps(masked(value, more), indent=2, ensure_ascii=False, cls=DjangoJSONEncoder)
    else:
        text = str(value)
    if len(text) <= LONGEST:
        return Argument(name, text)
    return Argument(name, text[:LONGEST], f"the first {LONGEST:,} of {len(text):,} characters")
