"""What a test may ask for: a queue table, or what an app of its own enqueues into one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any

from django.apps import apps
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Model
from django.utils.module_loading import module_has_submodule

from ..conf import nearest
from ..exceptions import shown
from ..models import Job

# An app whose users enqueue something else than rows, say functions, has a module of this name. Its
# ``jobs_of(asked)`` returns None for what it does not know, else the queue table, a name for
# messages, and a function: of a row of that table the values by name that a test may ask about, or
# None where the row is another's.
HOOK = "dbqueue_testing"
Values = Callable[[Any], Mapping[str, Any] | None]


class Target:
    """The jobs that a test means, and their values by name; here a queue table and its columns."""

    def __init__(self, model: type[Job]) -> None:
        self.model = model

    def __str__(self) -> str:
        return str(self.model._meta.label)

    def check(self, names: Iterable[str]) -> None:
        """``TypeError`` for a name that a test may not ask about."""
        fields = self.model._meta.concrete_fields
        known = {"pk", "state"}.union(*[{field.name, field.attname} for field in fields])
        for name in names:
            if name not in known:
                close = nearest(name, known)
                hint = f": did you mean {close!r}?" if close else ""
                raise TypeError(f"{self} has no column {name!r}{hint}")

    def includes(self, job: Job) -> bool:
        """Whether a row of ``model`` is one of them."""
        return True

    def value(self, job: Job, name: str) -> Any:
        """What a job holds by a name that was checked."""
        try:
            field: Any = self.model._meta.get_field(name)
        except FieldDoesNotExist:
            return getattr(job, name)
        # A row of another table, to which the column refers, need not be there any more.
        return getattr(job, field.attname)

    def equals(self, job: Job, name: str, wanted: Any) -> bool:
        """Whether it holds this value; for a foreign key a row may be given, or its key."""
        if isinstance(wanted, Model):
            to = getattr(self.model._meta.get_field(name), "target_field", None)
            wanted = getattr(wanted, to.attname) if to else wanted
        return bool(self.value(job, name) == wanted)

    def describe(self, job: Job, names: Iterable[str]) -> str:
        """One line that tells a job from others, with the values of these names."""
        values = [f"{name}={shown(self.value(job, name))}" for name in names]
        return ", ".join([f"{self} {job.pk}", *values])


class OfApp(Target):
    """What an app's own hook has described."""

    def __init__(self, model: type[Job], name: str, values: Values) -> None:
        super().__init__(model)
        self.name = name
        self.values = values

    def __str__(self) -> str:
        return self.name

    def check(self, names: Iterable[str]) -> None:
        """Which there are, a row tells."""

    def includes(self, job: Job) -> bool:
        return self.values(job) is not None

    def value(self, job: Job, name: str) -> Any:
        values = self.values(job) or {}
        if name not in values:
            raise TypeError(f"{self} has no {name!r}, but {', '.join(sorted(values))}")
        return values[name]

    def equals(self, job: Job, name: str, wanted: Any) -> bool:
        return bool(self.value(job, name) == wanted)


def target_of(asked: Any) -> Target:
    """``TypeError`` for what is neither a queue table nor known to an app."""
    if isinstance(asked, type) and issubclass(asked, Job) and not asked._meta.abstract:
        concrete: Any = asked._meta.concrete_model  # of a proxy
        return Target(concrete)
    for hook in hooks():
        if (found := hook.jobs_of(asked)) is not None:
            return OfApp(*found)
    raise TypeError(f"{shown(asked)} is no queue table")


def hooks() -> Iterator[Any]:
    for config in apps.get_app_configs():
        if config.module is not None and module_has_submodule(config.module, HOOK):
            yield import_module(f"{config.name}.{HOOK}")
