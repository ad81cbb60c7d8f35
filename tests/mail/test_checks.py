"""The system checks of the settings of mail."""

import django
import pytest
from django.core import checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError

from django_dbqueue.mail.checks import check_settings

DELIVERS = "smtp" if django.VERSION >= (6, 1) else "default"
NOT_CALLABLE = "django_dbqueue.mail.outcomes.MEANINGS"


FRACTIONS = {
    "TIMEOUT": 0.1,
    "RETRY_FIRST": 0,
    "RETRY_FACTOR": 1,
    "RETRY_CAP": 0,
    "PAUSE": 0,
    "CONNECTION_MAX_AGE": 0,
}
COUNTS = ("MAX_ATTEMPTS", "MAX_BYTES", "CONNECTION_MAX_MESSAGES")


def takes_two(error, more):
    return "retry"


def always_retry(error):
    return "retry"


def ours(**options):
    found = checks.run_checks(tags=["mail"], **options)
    return [one for one in found if one.id.startswith("dbqueue_mail.")]


@pytest.fixture
def ids(settings):
    def check(**given):
        settings.DBQUEUE = {
            **settings.DBQUEUE,
            **{f"MAIL_{name}": value for name, value in given.items()},
        }
        messages = ours()
        assert all(one.hint and "MAIL_" in one.msg for one in messages)
        return [one.id for one in messages]

    return check


def test_the_defaults_are_sound(ids):
    assert ids() == []


@pytest.mark.parametrize(
    ("given", "number"),
    [
        ({"CLASSIFIER": "no.such.function"}, 4),
        ({"CLASSIFIER": "django_dbqueue.mail.outcomes.nothing"}, 4),
        ({"CLASSIFIER": "classify"}, 4),
        ({"CLASSIFIER": NOT_CALLABLE}, 4),
        ({"CLASSIFIER": "builtins.dict"}, 4),
        ({"CLASSIFIER": "builtins.str"}, 4),
        ({"CLASSIFIER": "tests.mail.test_checks.takes_two"}, 4),
        ({"IN_DOUBT": "maybe"}, 5),
        ({"IN_DOUBT": ""}, 5),
        ({"LIMITS": {DELIVERS: 14}}, 6),
        ({"LIMITS": {DELIVERS: {"fortnight": 14}}}, 6),
        ({"LIMITS": {DELIVERS: {"second": 0}}}, 6),
        ({"LIMITS": {DELIVERS: {"second": "14"}}}, 6),
        ({"LIMITS": {"nobody": {"second": 14}}}, 7),
        *(({name: least - 0.01}, 12) for name, least in FRACTIONS.items()),
        *(({name: 0}, 12) for name in COUNTS),
        ({"ADMIN_REPORTS": -1}, 12),
        ({"QUEUE": ""}, 13),
        ({"URGENT_QUEUE": " urgent"}, 13),
        ({"ALLOWED_DOMAINS": ["anna@x.example"]}, 8),
        ({"ALLOWED_DOMAINS": [".x.example"]}, 8),
        ({"ALLOWED_DOMAINS": ["*.x.example"]}, 8),
        ({"ALLOWED_DOMAINS": ["x.example "]}, 8),
        ({"ALLOWED_DOMAINS": [""]}, 8),
        ({"ALLOWED_DOMAINS": [None]}, 8),
        ({"OVERRIDE_RECIPIENTS": ["x.example"]}, 9),
        ({"OVERRIDE_RECIPIENTS": ["dev@"]}, 9),
        ({"OVERRIDE_RECIPIENTS": ["dev@x.example\nBcc: a@x.example"]}, 9),
        ({"OVERRIDE_RECIPIENTS": [7]}, 9),
        ({"KEEP_BODIES": -1}, 10),
        ({"KEEP_ROWS": -1.5}, 10),
        ({"KEEP_BODIES": 3601, "KEEP_ROWS": 3600}, 11),
    ],
)
def test_a_setting_that_makes_no_sense_is_an_error_that_names_it_and_the_remedy(ids, given, number):
    assert ids(**given) == [f"dbqueue_mail.E{number:03}"]


@pytest.mark.parametrize(
    "given",
    [
        {"CLASSIFIER": "tests.mail.test_checks.always_retry"},
        {"IN_DOUBT": "hold"},
        {"LIMITS": {DELIVERS: {"second": 14, "day": 50_000}}},
        {"ALLOWED_DOMAINS": ["x.example", "localhost", "bücher.example"]},
        {"OVERRIDE_RECIPIENTS": ["dev@x.example", "Dev <dev@localhost>", "jörg@bücher.example"]},
        {"KEEP_BODIES": 3600, "KEEP_ROWS": 3600},
        {"TIMEOUT": None},
        FRACTIONS,
        dict.fromkeys(COUNTS, 1),
        {"KEEP_BODIES": 3600, "KEEP_ROWS": 0},
        {"KEEP_BODIES": 0, "KEEP_ROWS": 3600},
    ],
)
def test_a_setting_that_makes_sense_is_none(ids, given):
    assert ids(**given) == []


def test_every_wrong_value_is_named(ids):
    assert ids(IN_DOUBT="x", ALLOWED_DOMAINS=["@", "@"]) == [
        "dbqueue_mail.E005",
        "dbqueue_mail.E008",
        "dbqueue_mail.E008",
    ]


@pytest.mark.skipif(django.VERSION < (6, 1), reason="needs MAILERS")
def test_limits_may_name_the_entries_of_mailers(ids):
    assert ids(LIMITS={"smtp": {"second": 14}}) == []


@pytest.mark.usefixtures("db_rows")
@pytest.mark.parametrize("name", ["LIMITS", "ALLOWED_DOMAINS", "KEEP_BODIES"])
def test_a_value_of_the_wrong_type_is_said_by_the_core_and_hides_no_other(settings, name):
    settings.DBQUEUE = {f"MAIL_{name}": "x", "MAIL_IN_DOUBT": "maybe"}
    [said] = check_settings()
    assert said.id == "dbqueue_mail.E005"
    with pytest.raises(SystemCheckError) as caught:
        call_command("check")
    assert f"MAIL_{name}" in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [{"MAIL_OVERRIDE_RECIPIENTS": ["dev@x.example"]}, {"MAIL_ALLOWED_DOMAINS": ["x.example"]}],
)
def test_what_is_meant_for_staging_is_a_warning_on_deployment_only(settings, given):
    settings.DBQUEUE = given
    assert ours() == []
    [warning] = ours(include_deployment_checks=True)
    assert warning.id == "dbqueue_mail.W001"
    assert next(iter(given)) in warning.msg
    settings.DBQUEUE = {}
    assert ours(include_deployment_checks=True) == []


@pytest.mark.usefixtures("db_rows")
def test_a_worker_does_not_start_with_a_setting_that_makes_no_sense(settings):
    settings.DBQUEUE = {"MAIL_IN_DOUBT": "maybe"}
    with pytest.raises(SystemCheckError, match=r"dbqueue_mail\.E005"):
        call_command("runworker", "--once", skip_checks=False)
