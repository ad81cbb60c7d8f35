"""A job's own columns as people read them, secrets masked."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from django.db import models
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _

from ..guard import clean
from ..models import KeyColumns, Traced
from ..models.columns import JobColumns
from ..texts.wording import number
from .masking import MASK, is_sensitive, masked

CHARACTERS_MAX = 20_000
# Columns that jobs of many tables have and most jobs leave empty.
SELDOM = frozenset(field.name for base in (KeyColumns, Traced) for field in base._meta.fields)
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


def arguments(
    job: Any, more: Collection[str] = (), shown: Collection[str] | None = None
) -> Iterator[Argument]:
    """``more`` adds names of what is sensitive; ``shown`` are the columns, None = all. Keys come
    last, if there are any."""
    own = own_fields(type(job))
    seldom = [*(one for one in own if one.name in SELDOM), job._meta.get_field("dedup_key")]
    given = [one for one in seldom if str(getattr(job, one.attname) or "")]
    for field in [*(one for one in own if one.name not in SELDOM), *given]:
        if shown is not None and field.name not in shown:
            continue
        name = str(field.verbose_name)
        if is_sensitive(field.name, more):
            yield Argument(name, MASK)
        else:
            value = getattr(job, field.attname)
            if field.is_relation and value is not None:
                # Its row as that calls itself, with the key.
                try:
                    other = getattr(job, field.name)
                    value = f"{other} ({field.related_model._meta.verbose_name} {value})"
                except field.related_model.DoesNotExist:
                    value = _("%(key)s (which is not there any more)") % {"key": value}
            yield argument(name, value, more)


def argument(name: str, value: Any, more: Collection[str]) -> Argument:
    if value is None:
        return Argument(name, "", _("none"))
    if value == "":
        return Argument(name, "", _("empty"))
    if isinstance(value, bool):
        return Argument(name, _("Yes") if value else _("No"))
    if isinstance(value, bytes | bytearray | memoryview):
        size = {"size": filesizeformat(len(value))}
        return Argument(name, "", _("%(size)s of binary data") % size)
    if isinstance(value, dict | list):
        # Numbers stay exact: no browser reads them.
        text = json.dumps(masked(value, more), indent=2, ensure_ascii=False, default=str)
    else:
        text = str(masked(str(value), more))
    text = clean(text)
    if len(text) <= CHARACTERS_MAX:
        return Argument(name, text)
    lengths = {"shown": number(CHARACTERS_MAX), "all": number(len(text))}
    note = _("the first %(shown)s of %(all)s characters") % lengths
    return Argument(name, text[:CHARACTERS_MAX], note)
