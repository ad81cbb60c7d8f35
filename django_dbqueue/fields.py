"""The fields of a queue table. Their import paths stand in users' migrations and never move."""

import datetime
import json
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.operations import BaseDatabaseOperations
from django.db.models.functions.datetime import TruncBase
from django.db.models.sql.compiler import SQLCompiler
from django.utils import timezone

from .exceptions import shown
from .guard import clean

UTC = datetime.UTC
MAX_NAME_BYTES = 200
# Characters that have a terminal or a page show what follows in another order.
DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
MOST_NESTED = 20

Compiled = tuple[str, Any]


class DbNow(models.Func):
    """The database's clock in UTC, plus ``plus`` seconds: the moment of execution, not of the
    transaction's start, whatever the session's time zone is.

    Resolution: microseconds; milliseconds on SQLite.
    """

    template = "CURRENT_TIMESTAMP"

    def __init__(self, plus: float = 0) -> None:
        self.plus = plus
        super().__init__(output_field=InstantField())

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return "django_dbqueue.fields.DbNow", [self.plus] if self.plus else [], {}

    def as_mysql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any
    ) -> Compiled:
        if not self.plus:
            return "UTC_TIMESTAMP(6)", []
        return "(UTC_TIMESTAMP(6) + INTERVAL %s MICROSECOND)", [round(self.plus * 1e6)]

    def as_postgresql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any
    ) -> Compiled:
        if not self.plus:
            return "CLOCK_TIMESTAMP()", []
        return "(CLOCK_TIMESTAMP() + %s * INTERVAL '1 second')", [self.plus]

    def as_sqlite(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any
    ) -> Compiled:
        # SQLite's clock ticks in milliseconds; the zeros keep the text sortable with ours.
        if not self.plus:
            return "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f000', 'now')", []
        return "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f000', 'now', %s)", [f"{self.plus:+f} seconds"]


class Extreme(datetime.datetime):
    """An instant of the first or the last year there is: some zones may have no date for it."""

    convert_to_local_time = False  # so Django's templates and admin show it in UTC


class ReadFirst(list[Any]):
    """Converters of a field that come in place of the backend's for such a column, and before those
    of an expression over it, not after them."""

    def __add__(self, others: list[Any]) -> "ReadFirst":
        return ReadFirst([*self, *others])

    def __radd__(self, others: list[Any]) -> "ReadFirst":
        return ReadFirst([*self, *(one for one in others if not _is_of_backend(one))])


def _is_of_backend(converter: Any) -> bool:
    return isinstance(getattr(converter, "__self__", None), BaseDatabaseOperations)


class InstantField(models.DateTimeField):  # type: ignore[type-arg]
    """A point in time, UTC in the column whatever ``USE_TZ`` and ``TIME_ZONE`` say.

    In Python it is what the project is used to: aware under ``USE_TZ`` (a naive value is refused),
    else naive in ``TIME_ZONE``. What somebody wrote by hand that Python has no instant for
    (PostgreSQL's infinity, a word on SQLite) reads as None.
    """

    # Set by the dialects: SQL that reads a column, or an expression with parameters.
    readable: Callable[[BaseDatabaseWrapper, str, bool], str] = staticmethod(lambda _, sql, __: sql)

    # update_or_create() would name every field whose pre_save() is not the plain one.
    pre_save = models.Field.pre_save

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.auto_now or self.auto_now_add:
            raise TypeError("an InstantField takes db_default=DbNow(), not auto_now")

    def get_internal_type(self) -> str:
        return "DateTimeField"  # by which Django knows how to subtract one from another

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return connection.data_types["DateTimeField"]

    def rel_db_type(self, connection: BaseDatabaseWrapper) -> str:
        return self.db_type(connection)

    def get_prep_value(self, value: Any) -> Any:
        if value is None or hasattr(value, "resolve_expression"):
            return value
        value = self._instant(value)
        if timezone.is_aware(value):
            return value
        if settings.USE_TZ:
            raise ValueError(f"{self.name or 'instant'}: a naive datetime under USE_TZ: {value!r}")
        return self._instant(timezone.make_aware(value, timezone.get_default_timezone()))

    def _instant(self, value: Any) -> Any:
        """A naive datetime as it is, an aware one in UTC."""
        try:
            found = self.to_python(value)
            return found.astimezone(UTC) if timezone.is_aware(found) else found
        except (TypeError, OverflowError, ValidationError):
            name = self.name or "instant"
            problem = f"{name} must be a datetime of the years 1 to 9999 in UTC, not {shown(value)}"
            raise ValidationError({name: problem}) from None

    def get_db_prep_value(
        self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False
    ) -> Any:
        value = value if prepared else self.get_prep_value(value)
        if not isinstance(value, datetime.datetime):
            return value
        if connection.features.supports_timezones:
            return value
        return value.replace(tzinfo=None).isoformat(" ", "microseconds")

    def select_format(self, compiler: SQLCompiler, sql: str, params: Any) -> tuple[str, Any]:
        # Inside a subquery the value is compared, not read.
        if compiler.query.subquery:
            return sql, params
        return self.readable(compiler.connection, sql, bool(params)), params

    def get_db_converters(self, connection: BaseDatabaseWrapper) -> list[Any]:
        return ReadFirst([self.from_db_value])

    def from_db_value(
        self, value: Any, expression: Any, connection: BaseDatabaseWrapper
    ) -> datetime.datetime | None:
        if value is None:
            return None
        try:
            if isinstance(value, str):
                value = datetime.datetime.fromisoformat(value)
            if value.tzinfo is not None:  # PostgreSQL answers in the zone of the session
                value = value.astimezone(UTC)
            if settings.USE_TZ and isinstance(expression, TruncBase):
                # What a clock shows, as if in UTC; it gives it its own zone.
                return value  # type: ignore[no-any-return]
            instant: datetime.datetime = value.replace(tzinfo=UTC)
            if settings.USE_TZ:
                if datetime.MINYEAR < instant.year < datetime.MAXYEAR:
                    return instant
                return Extreme.combine(instant.date(), instant.timetz())
            return timezone.make_naive(instant, timezone.get_default_timezone())
        except (ValueError, OverflowError):
            return None


def aware(moment: datetime.datetime) -> datetime.datetime:
    """A moment as the project has it, which is naive without ``USE_TZ``, with its zone. Sums and
    differences are right in UTC alone: within one zone Python ignores that clocks change."""
    zone = timezone.get_default_timezone()
    return moment if timezone.is_aware(moment) else timezone.make_aware(moment, zone)


def later(moment: datetime.datetime, by: datetime.timedelta) -> datetime.datetime:
    """As the project has it, naive or aware like the moment."""
    found = aware(moment).astimezone(UTC) + by
    if timezone.is_aware(moment):
        return found
    return timezone.make_naive(found, timezone.get_default_timezone())


def check_seconds(value: Any, name: str, most: float) -> float:
    """The number; ``ValueError`` names what is no number of seconds from 0 to ``most``."""
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if isinstance(value, Decimal) and not value.is_finite():
        is_number = False  # it would not even be compared
    if not is_number or not 0 <= value <= most:
        raise ValueError(f"{name} must be between 0 and {most} seconds, not {shown(value)}")
    return float(value)


def check_words(value: Any, name: str, most: int) -> None:
    """``ValueError`` names what is no text that every database stores."""
    if not isinstance(value, str) or len(value) > most or clean(value) != value:
        raise ValueError(f"{name} must be text of at most {most} characters, not {shown(value)}")


def check_name(value: str, field: str) -> None:
    """Refuse a queue's name or a key that another database would store or compare differently."""
    if not isinstance(value, str) or not value:
        raise ValidationError({field: f"{field} must be a non-empty string, not {shown(value)}"})
    size = len(value.encode(errors="surrogatepass"))
    if size > MAX_NAME_BYTES:
        raise ValidationError({field: f"{field} has {size} bytes; the limit is {MAX_NAME_BYTES}"})
    _check_text(value, field)


@lru_cache(maxsize=1000)  # mostly it is one of a few queues
def _check_text(value: str, field: str) -> None:
    if value != value.strip():
        raise ValidationError({field: f"{field} must not begin or end with a space: {value!r}"})
    if any(_is_control(char) for char in value):
        raise ValidationError({field: f"{field} must not hold control characters: {value!r}"})


def _is_control(char: str) -> bool:
    is_break_or_half = unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"}
    return is_break_or_half or unicodedata.bidirectional(char) in DIRECTIONS


class NameField(models.CharField):  # type: ignore[type-arg]
    """At most 200 bytes of UTF-8, no control characters, no outer spaces, compared byte-wise."""

    # Set by the dialects, which know the vendors and stand above the fields.
    bytewise_collation: Callable[[BaseDatabaseWrapper], str | None] = staticmethod(lambda _: None)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("max_length", MAX_NAME_BYTES)
        super().__init__(*args, **kwargs)

    def validate(self, value: Any, model_instance: models.Model | None) -> None:
        super().validate(value, model_instance)
        if value is None:
            return
        try:
            check_name(value, self.name)
        except ValidationError as error:
            # Of a field, Django's ``clean_fields`` and forms take messages without its name.
            raise ValidationError(error.messages) from None

    def get_db_prep_save(self, value: Any, connection: BaseDatabaseWrapper) -> Any:
        if isinstance(value, str):
            check_name(value, self.name)
        return super().get_db_prep_save(value, connection)

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        parameters = super().db_parameters(connection)
        if parameters["collation"] is None:
            parameters["collation"] = NameField.bytewise_collation(connection)
        return parameters


class ErrorsField(models.JSONField):
    """JSON that may be shown, whatever a hand has written: what nests deeper than anything of ours,
    or holds half a character, stays the text that it is."""

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> Any:
        try:
            found = super().from_db_value(value, expression, connection)
        except RecursionError:
            return str(value)
        return str(value) if _nests(found, MOST_NESTED) or _is_torn(value, found) else found


def _is_torn(text: Any, found: Any) -> bool:
    """Whether there is half of a surrogate pair, which nobody can send or print."""
    if not isinstance(text, str) or "\\ud" not in text.lower():
        return False
    return any("\ud800" <= char <= "\udfff" for char in json.dumps(found, ensure_ascii=False))


def _nests(item: Any, left: int) -> bool:
    inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    return left == 0 or any(_nests(one, left - 1) for one in inner)
