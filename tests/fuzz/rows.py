"""Values that a hand may write into any column, by the kind of column and of database."""

import json
import string
from typing import Any

from django.db import connection
from django.db.utils import Error

from tests.kit.broken_rows import lax

NUMBERS = [-1, 0, 1, 2, 3, 4, 77, 127, 128, 32767, 65535, 2**31 - 1, 2**32 - 1, 2**63 - 1, -(2**63)]
INSTANTS = [
    "0001-01-01 00:00:00",
    "0999-12-31 23:59:59.999999",
    "1969-12-31 23:59:59",
    "2020-01-01 00:00:00",
    "2038-01-19 03:14:08",
    "9999-12-31 23:59:59.999999",
]
ODD_INSTANTS: dict[str, list[Any]] = {
    "sqlite": [
        *("", "now", "tomorrow", "2020-13-45", "2020-13-45 00:00:00", "2459000.5", "12:00"),
        *("0000-00-00 00:00:00", "10000-01-01 00:00:00", "2020-01-01T00:00:00+99:99", "9" * 400),
        *(0, -1, 2459000.5, 1e300, b"2020-01-01 00:00:00", b"\xff"),
    ],
    "postgresql": ["infinity", "-infinity", "294276-12-31 23:59:59", "4713-01-01 00:00:00 BC"],
    "mysql": ["0000-00-00 00:00:00", "2020-00-00 00:00:00", "2020-02-31 00:00:00"],
}
NAMES = ["", " ", "  ", "default ", "default\t", "Default", "dëfault", "\U0001f600", "%s", "'", '"']
NAMES += ["q" * 200, "\u200f", "\ufeff", "a\nb", "a\\b", "%", "_", "{}", "<b>", "\x1f", "\x1b[2J"]
WORDS = ["", "x", "ready", "1", "1.5", "-0", "nan", "inf", "1e9", "NULL", "true", "٣"]
OWNERS = ["", ".", "me", "f" * 32 + ".1-1", "o" * 64, "\x1f", "%", "d" * 32 + ".1", "é" * 64]
JSON = [
    *("null", "true", "17", "-1e400", '"it was late"', "[]", "{}", "[[]]", "[null]", "[1, 2]"),
    *('{"exception": "E"}', '[{"message": 5}]', '[{"exception": ["E"], "message": {}}]'),
    *('[{"seconds": 1e400}]', '[{"attempt": 123456789012345678901234567890}]', "1" * 400),
    *('["\\ud800"]', '[{"message": "\\ud800", "exception": "\\u0000"}]', '{"a": 1, "a": 2}'),
    *("[" * n + "]" * n for n in (100, 900, 1500, 5000)),
    *('[{"a":' * n + "1" + "}]" * n for n in (100, 700)),
    json.dumps([{"exception": "E", "message": "m" * 500}] * 30),
    json.dumps([{"attempt": n, "traceback": "t" * 9000} for n in range(11)]),
]
NOT_UTF8 = [b"\xff", b"default\xff", b"\xed\xa0\x80", b"\xc0\x80", b"a\xf8\x88\x80\x80\x80"]

NUMBER, INSTANT, NAME, OWNER, ERRORS, TEXT, REAL = range(7)
KINDS = {
    "queue": NAME,
    "priority": NUMBER,
    "status": NUMBER,
    "owner": OWNER,
    "dequeued_time": INSTANT,
    "retry_at": INSTANT,
    "attempts": NUMBER,
    "crashes": NUMBER,
    "losses": NUMBER,
    "time_to_run": NUMBER,
    "created_at": INSTANT,
    "finished_at": INSTANT,
    "expires_at": INSTANT,
    "errors": ERRORS,
    "dedup_key": NAME,
}
OF_NOTES = {"text": TEXT, "action": TEXT, "seconds": REAL}
# None of these lets a job sleep.
REALS = [-1, -0.0, 5e-324, 1e-300, 1e300, 1.7976931348623157e308, "nan", "inf", "-inf"]
FIXED: dict[int, list[Any]] = {
    NUMBER: NUMBERS,
    INSTANT: INSTANTS,
    NAME: NAMES,
    OWNER: OWNERS,
    ERRORS: JSON,
    TEXT: NAMES + WORDS,
    REAL: REALS,
}
# Where a row is met by which part of a worker.
PLACES = [
    "",
    "",
    "status = 1, owner = 'me', retry_at = '2020-01-01 00:00:00'",
    "status = 1, owner = 'me', retry_at = '2020-01-01 00:00:00', crashes = 2",
    "status = 3, retry_at = '2020-01-01 00:00:00'",
    "status = 2, retry_at = '2020-01-01 00:00:00', finished_at = '2020-01-01 00:00:00'",
    "status = 4, finished_at = '2020-01-01 00:00:00'",
    "expires_at = '2020-01-01 00:00:00'",
    "priority = 0",
    "queue = 'other'",
]


def any_text(random):
    alphabet = string.printable + "äß漢\u202e\u0301\U0001f600\x80\ufffe"
    return "".join(random.choices(alphabet, k=random.choice([1, 3, 20, 300])))


def any_value(random, kind):
    """SQL of a value, and its parameters."""
    vendor = connection.vendor
    if random.random() < 0.07:
        return "NULL", []
    # A number of seconds would be slept.
    if vendor == "sqlite" and kind != REAL and random.random() < 0.4:
        return _untyped(random)
    choices = list(FIXED[kind])
    if kind == INSTANT:
        choices += ODD_INSTANTS[vendor]
    if kind in {NAME, OWNER, TEXT}:
        choices.append(any_text(random))
    if kind == NUMBER:
        choices.append(random.randint(-(2 ** random.randint(1, 63)), 2 ** random.randint(1, 63)))
    return "%s", [random.choice(choices)]


def _untyped(random):
    """SQLite's columns have no types."""
    if random.random() < 0.25:
        return f"CAST(x'{random.choice(NOT_UTF8).hex()}' AS TEXT)", []
    text = any_text(random)
    values = [*NUMBERS, 1.5, -1e300, float("inf"), text, text.encode(), b"", b"\0", "a\0b"]
    return "%s", [random.choice([*values, *WORDS, *NAMES, *ODD_INSTANTS["sqlite"]])]


def spoil(random, model, key, kinds):
    """Edit one row by hand; what was written, or None where the database refused it."""
    place = random.choice(PLACES)
    sets, params = [place] if place else [], []
    placed = {part.split(" = ")[0].strip() for part in place.split(", ")}
    columns = random.sample(sorted(kinds), k=random.choice([1, 1, 1, 2, 4]))
    for column in columns:
        if column in placed:
            continue
        sql, values = any_value(random, kinds[column])
        sets.append(f"{connection.ops.quote_name(column)} = {sql}")
        params += values
    if not params and not any("=" in one for one in sets[bool(place) :]):
        return None
    table = connection.ops.quote_name(model._meta.db_table)
    pk = connection.ops.quote_name(model._meta.pk.column)
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {table} SET {', '.join(sets)} WHERE {pk} = %s", [*params, key])
    except (Error, ValueError, OverflowError):
        return None  # not let through
    return f"{model.__name__}: {', '.join(sets)} {[_short(value) for value in params]}"


def _short(value):
    return repr(value)[:60]


def unprotected():
    """As a hand writes: MariaDB and MySQL as lax as older programs set them up."""
    return lax()
