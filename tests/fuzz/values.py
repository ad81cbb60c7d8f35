"""What a caller may give by mistake, or out of spite."""

import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

from django.db.models import F
from django.utils.functional import lazystr
from hypothesis import strategies as st

from django_dbqueue.fields import DbNow
from django_dbqueue.states import Status

NAN, INF = float("nan"), float("inf")


class Word(str):
    __slots__ = ()


class Number(int):
    __slots__ = ()


FAR_EAST, FAR_WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))
NASTY = [
    *(None, True, False, 0, 1, -1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 10**30),
    *(-(10**30), 0.0, -0.0, 1.5, 5e-324, 1e300, NAN, INF, -INF, Decimal("NaN"), Decimal("1.5")),
    *(Decimal("sNaN"), Fraction(1, 3), 1 + 2j, Number(7), Status.DONE, Word("word"), lazystr("x")),
    *("", " ", "x", "1", "-1", "nan", "a\0b", "\0", "\ud800", "a\udfffb", "x" * 200, "x" * 201),
    *(
        "é" * 100,
        "é" * 101,
        "\x7f",
        "a\nb",
        "\u2028",
        "\ufeff",
        "\u202eabc",
        "%s",
        "{}",
        "'--",
        "\\",
    ),
    *("漢" * 66, "漢" * 67, "\U0001f600" * 50, "\U0001f600" * 51, "x" * 10**6, "\uffff", "٣"),
    *(b"", b"x", b"\xff", bytearray(b"x"), memoryview(b"x"), [], [1], {}, {"a": 1}, (), {1}),
    *(object(), int, len, NotImplemented, ..., uuid.UUID(int=1), range(3), iter(()), F("priority")),
    *(timedelta(1), timedelta(-1), date(2026, 1, 1), date.max, time(1), DbNow(), DbNow(plus=-5)),
    *(datetime.min, datetime.max, datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)),
    *(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)),
    *(datetime.min.replace(tzinfo=FAR_EAST), datetime.max.replace(tzinfo=FAR_WEST)),
    *("tomorrow", "2026-01-01", "2026-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-01 00:00"),
    *("9999-12-31T23:59:59.999999-12:00", "0001-01-01T00:00:00+14:00", "10000-01-01T00:00:00Z"),
]
ZONES = st.sampled_from([None, UTC, FAR_EAST, FAR_WEST])
ANY = st.one_of(
    st.sampled_from(NASTY),
    st.text(max_size=250),
    st.text(alphabet=st.characters(categories=["Cc", "Cf", "Cs", "Zs", "Zl", "Co", "So"])),
    st.integers(),
    st.integers(min_value=0, max_value=2**33),
    st.floats(),
    st.decimals(),
    st.datetimes(timezones=ZONES),
    st.binary(max_size=10),
    st.lists(st.integers(), max_size=2),
)
