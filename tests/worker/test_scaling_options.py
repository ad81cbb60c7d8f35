"""``--processes 1-8`` and what decides within it: option > environment > settings > default."""

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError

from django_dbqueue.conf import conf, wrong_values
from django_dbqueue.conf.bounds import ProcessRange
from django_dbqueue.mail.management.commands.send_queued_mail import Command as SendMail
from django_dbqueue.management.commands.runworker import Command
from django_dbqueue.worker.options import Limits
from django_dbqueue.worker.scaling_options import ScalingOptions

pytestmark = pytest.mark.any_database


def options(*args):
    """What the command makes of its arguments."""
    command = Command()
    given = command.create_parser("manage.py", "runworker").parse_args(args)
    return command.options(vars(given))


@pytest.mark.parametrize(
    ("text", "bounds", "grows"),
    [("4", (4, 4), False), ("1-8", (1, 8), True), ("3-3", (3, 3), False)],
)
def test_a_number_of_processes_or_a_range_reaches_the_worker(
    text, bounds, grows, settings, monkeypatch
):
    assert options("--processes", text).process_range == bounds
    settings.DBQUEUE = {"PROCESSES": text}
    assert (options().process_range, options().grows) == (bounds, grows)
    settings.DBQUEUE = {"PROCESSES": 7}
    assert options().process_range == (7, 7)
    monkeypatch.setenv("DBQUEUE_PROCESSES", text)
    assert (options().process_range, options().grows) == (bounds, grows)
    assert options("--processes", "2-9").process_range == (2, 9)


@pytest.mark.parametrize("text", ["", "0", "0-3", "8-1", "1-", "-1", "1-2-3", "x", "1.5", "1-1001"])
def test_what_is_neither_is_refused_and_named(text, settings, monkeypatch):
    with pytest.raises(CommandError, match=r"--processes: must be"):
        options(f"--processes={text}")
    settings.DBQUEUE = {"PROCESSES": text}
    with pytest.raises(ImproperlyConfigured, match=r"DBQUEUE\['PROCESSES'\] must be"):
        conf["PROCESSES"]
    assert any("PROCESSES" in problem for problem in wrong_values())
    settings.DBQUEUE = {}
    monkeypatch.setenv("DBQUEUE_PROCESSES", text)
    with pytest.raises(CommandError, match="DBQUEUE_PROCESSES must be"):
        options()


@pytest.mark.parametrize("value", [True, None, 2.5, [1, 8]])
def test_a_setting_of_another_type_is_refused(value, settings):
    settings.DBQUEUE = {"PROCESSES": value}
    with pytest.raises(ImproperlyConfigured, match="must be"):
        conf["PROCESSES"]


CHOSEN = {
    "target_wait": ("--target-wait=12", 12, "TARGET_WAIT", 13.5),
    "balance": ("--balance=auto", "auto", "BALANCE", "simple"),
    "balance_by": ("--balance-by=size", "size", "BALANCE_BY", "size"),
    "balance_cooldown": ("--balance-cooldown=7", 7, "BALANCE_COOLDOWN", 8.5),
    "balance_max_shift": ("--balance-max-shift=2", 2, "BALANCE_MAX_SHIFT", 3),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_what_decides_reaches_the_worker(name, settings, monkeypatch):
    option, value, setting, other = CHOSEN[name]
    assert getattr(options().scaling, name) != value
    settings.DBQUEUE = {setting: other}
    assert getattr(options().scaling, name) == other
    settings.DBQUEUE = {}
    monkeypatch.setenv(f"DBQUEUE_{setting}", str(other))
    assert getattr(options().scaling, name) == other
    assert getattr(options(option).scaling, name) == value


def test_a_balance_can_be_switched_off_in_the_environment(settings, monkeypatch):
    settings.DBQUEUE = {"BALANCE": "auto"}
    monkeypatch.setenv("DBQUEUE_BALANCE", "off")
    assert options().scaling.balance == "off"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (
            "--target-wait=0",
            "--target-wait: must be a number of at least 0.01 and",
        ),
        (
            "--balance-cooldown=0.01",
            "--balance-cooldown: must be a number of at least 0.05 and",
        ),
        (
            "--balance-max-shift=0",
            "--balance-max-shift: must be a whole number of at least 1 and",
        ),
        ("--balance=on", "--balance: invalid choice"),
        ("--balance-by=age", "--balance-by: invalid choice"),
    ],
)
def test_nonsense_is_refused_with_the_limit(option, said):
    with pytest.raises(CommandError, match=said):
        options(option)


def test_queues_are_balanced_only_by_a_worker_that_works_on():
    assert options("--balance=auto").balances
    assert not options().balances
    assert not options("--balance=auto", "--max-jobs=9").balances
    assert not options("--balance=auto", "--stop-when-empty").balances


@pytest.mark.parametrize(
    ("args", "shares", "reserve"),
    [
        (["--processes=2", "--max-jobs=7"], [4, 3], []),
        (["--processes=1-3", "--max-jobs=7"], [3], [2, 2]),
        (["--processes=2-3", "--max-jobs=1"], [1], []),
        (["--processes=2-3"], [None, None], []),
    ],
)
def test_counted_jobs_are_shared_out_among_all_that_there_may_be(args, shares, reserve):
    limits = Limits(options(*args))
    assert (limits.shares(), limits.reserve()) == (shares, reserve)


def test_mail_is_sent_by_a_range_of_processes_too():
    parser = SendMail().create_parser("manage.py", "send_queued_mail")
    assert parser.parse_args(["--processes=1-4"]).processes == ProcessRange(1, 4)


def test_a_word_that_code_gives_and_nobody_knows_is_refused_with_those_that_are_known():
    with pytest.raises(ValueError, match="balance must be off or simple or auto, not of"):
        ScalingOptions(balance="of")
