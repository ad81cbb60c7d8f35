"""Every setting has its type and its bounds, and ``manage.py check`` knows them."""

import math

import pytest
from django.core.management import CommandError
from django.test import override_settings

from django_dbqueue.checks.tables import check_settings
from django_dbqueue.conf import Section, wrong_values
from django_dbqueue.conf.bounds import NotEmpty, Parsed, Range, Unlimited
from django_dbqueue.mail.checks import check_settings as check_mail
from django_dbqueue.mail.conf import BOUNDS, mail_conf
from django_dbqueue.management.commands.runworker import Command

pytestmark = pytest.mark.any_database
JUDGED = {
    section.prefix + name: bounds
    for section in Section.all
    for name, bounds in (BOUNDS if section is mail_conf else section.bounds).items()
}
CHOSEN = {s.prefix + name for s in Section.all for name in (*s.choices, *s.readers)}
RANGES = {name: bounds for name, bounds in JUDGED.items() if isinstance(bounds, Range)}
OPTIONS = {
    name: action
    for action in Command().create_parser("manage.py", "runworker")._actions
    if isinstance(JUDGED.get(name := action.dest.upper()), Range)
}


def said(key, value):
    """What the checks say of one setting."""
    with override_settings(DBQUEUE={key: value}):
        return [error.msg for error in [*check_settings(), *check_mail()]]


def default_of(key):
    [found] = [s.defaults[n] for s in Section.all for n in s if s.prefix + n == key]
    return found


def test_each_setting_has_bounds_or_says_why_it_has_none():
    known = {s.prefix + name for s in Section.all for name in s}
    assert known == JUDGED.keys() | CHOSEN
    assert {type(bounds) for bounds in JUDGED.values()} == {Range, Parsed, NotEmpty, Unlimited}
    assert all(bounds.why for bounds in JUDGED.values() if isinstance(bounds, Unlimited))
    numbers = {key for key in JUDGED if type(default_of(key)) in {int, float}}
    assert numbers == RANGES.keys() | {"MAIL_FINAL_TIMEOUT"}


@pytest.mark.parametrize("key", sorted({*JUDGED, *CHOSEN}))
@pytest.mark.parametrize("value", [object(), b"x", {1}, 1j])
def test_a_value_of_another_type_is_refused_by_name(key, value):
    [message] = said(key, value)
    assert f"DBQUEUE['{key}'] must be" in message


def beyond(key):
    bounds, whole = RANGES[key], isinstance(default_of(key), int)
    step = 1 if whole else bounds.least / 2 or 0.001
    return [bounds.least - step, bounds.most + 1]


@pytest.mark.parametrize(("key", "value"), [(key, one) for key in RANGES for one in beyond(key)])
def test_a_number_beyond_its_bounds_is_refused_with_them(key, value):
    message = next(one for one in said(key, value) if key in one)
    assert f"DBQUEUE['{key}'] must be {RANGES[key]}, not {value}" in message


@pytest.mark.parametrize("key", RANGES)
def test_what_lies_at_its_bounds_is_taken(key):
    for value in RANGES[key][:2]:
        with override_settings(DBQUEUE={key: value}):
            assert not [one for one in said(key, value) if f"DBQUEUE['{key}'] must" in one]


@pytest.mark.parametrize("value", [0, -1, 300])
def test_the_answer_to_a_mail_takes_less_time_than_the_mail(value):
    [message] = said("MAIL_FINAL_TIMEOUT", value)
    assert "must be more than 0 and less than 300 seconds" in message


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("QUEUE_ORDER", ["high=0"], "the weight of 'high' must be a whole number of at least 1"),
        ("QUEUE_ORDER", [7], "7 is no queue's name"),
    ],
)
def test_what_a_reader_refuses_is_refused_with_its_words(key, value, words):
    [message] = said(key, value)
    assert f"DBQUEUE['{key}'] makes no sense: " in message
    assert words in message


def test_a_host_needs_a_name():
    [message] = said("PROBE_HOST", " ")
    assert message.startswith("DBQUEUE['PROBE_HOST'] must not be empty, as ' ' is")


def test_times_that_contradict_each_other_are_found():
    words = "WORKER_TIMEOUT (10 s) must be more than twice BEAT_INTERVAL (5 s)."
    assert said("BEAT_INTERVAL", 5) == [words]


def test_what_the_environment_says_is_named_by_its_variable(monkeypatch):
    monkeypatch.setenv("DBQUEUE_PROBE_PORT", "99999")
    assert wrong_values() == ["DBQUEUE_PROBE_PORT must be at least 0 and at most 65535, not 99999"]


def test_what_is_no_number_is_in_no_range():
    with pytest.raises(ValueError, match="not nan"):
        Range(0, 1).check(math.nan)


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_an_option_has_the_bounds_of_its_setting(name):
    bounds, option = RANGES[name], OPTIONS[name].option_strings[0]
    parser = Command().create_parser("manage.py", "runworker")
    for value in (bounds.least, bounds.most):
        assert vars(parser.parse_args([f"{option}={value}"]))[name.lower()] == value
    for value in (bounds.least - 1, bounds.most + 1):
        with pytest.raises(CommandError) as refused:
            parser.parse_args([f"{option}={value}"])
        assert f"{option}: must be a" in str(refused.value)
        assert str(bounds) in str(refused.value)


def test_the_options_with_a_setting_are_known():
    assert {"THREADS", "PROBE_PORT", "SLEEP", "BALANCE_MAX_SHIFT", "BATCH_SIZE"} < OPTIONS.keys()
