"""Policies of nonsense: the checks name them, and a worker that skips the checks goes on."""

import logging
from decimal import Decimal
from typing import Any

import pytest
from django.db.models import QuerySet
from django.test.utils import isolate_apps

from django_dbqueue.backoff import Exponential, Fixed, Listed
from django_dbqueue.checks import tables
from django_dbqueue.lifecycle.policy import MAX_SECONDS, OPTIONS, Policy, policy_of, problems
from django_dbqueue.models import Job
from django_dbqueue.states import Status
from tests.fuzz.tally import Tally, drawn
from tests.fuzz.values import ANY, NAN, NASTY
from tests.fuzz.working import work_off
from tests.kit.jobs import forget_tables
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")


class Raising:
    def seconds(self, attempt):
        raise SystemExit(attempt)


class Unlike:
    """Will not be compared."""

    def __eq__(self, other):
        raise RuntimeError("never")

    __hash__ = None


BACKOFFS: list[Any] = [
    *(Raising(), Raising, Listed(()), Listed(("x",)), Listed(5), Fixed("x"), Fixed(NAN), Fixed(-1)),  # type: ignore[arg-type]
    *(
        Exponential(first="x"),  # type: ignore[arg-type]
        Exponential(factor=None),
        Exponential(cap=NAN),
        Exponential(first=-1),
    ),
]
WRONG = {
    "time_to_run": [0, -1, NAN, "60", None, True, MAX_SECONDS + 1, 1e300],
    "max_attempts": [0, -1, 1.5, "5", None, NAN, True, 2**31],
    "backoff": [*BACKOFFS, 60, "60", None, lambda attempt: 1],
    "finish": ["Batch", "", None, True, 1, Unlike()],
    "dedup_until": ["Claim", "", None, True, 1, Unlike()],
    "strict_order": [1, 0, "yes", None],
    "archive": [5, True, b"queueapp.ArchivedKept", Note],
    "archive_after": [-1, NAN, "1", None, True, 1e300],
    "prune_after": [-1, NAN, "1", True, 1e300],
}
EXAMPLES = [(option, value) for option, values in WRONG.items() for value in values]


def table_with(**options):
    """A queue table with such a policy."""
    meta = type("Meta", (Job.Meta,), {"app_label": "queueapp"})
    policy = type("Policy", (), options)
    members = {"Meta": meta, "Policy": policy, "__module__": __name__}
    with isolate_apps("tests.queueapp"):
        return type("Odd", (Job,), members)


def ids(model):
    return {message.id for message in tables.check_table(model)}


@pytest.mark.parametrize("option", WRONG)
def test_a_value_that_makes_no_sense_is_found_and_named(option, caplog):
    for value in WRONG[option]:
        model = table_with(**{option: value})
        assert set(problems(model)) == {option}, value
        assert "dbqueue.E014" in ids(model)
        said = [m.msg for m in tables.check_table(model) if m.id == "dbqueue.E014"]
        assert [f"Policy.{option} makes no sense" in line for line in said] == [True]
        used, usual = getattr(policy_of(model), option), getattr(Policy(), option)
        assert used is usual or used == usual


def test_a_policy_in_order_is_not_objected_to():
    model = table_with(
        time_to_run=0.5 + 1,
        max_attempts=1,
        backoff=Fixed(0),
        finish="each",
        dedup_until="done",
        strict_order=True,
        archive=None,
        archive_after=0,
        prune_after=None,
    )
    assert problems(model) == {}
    assert "dbqueue.E014" not in ids(model)


@pytest.mark.parametrize("pauses", [(1, 60), (Decimal("0.5"),)])
def test_a_backoff_need_not_know_more_attempts_than_there_are(pauses):
    class Table:
        def seconds(self, attempt):
            return pauses[attempt - 1]

    assert problems(table_with(backoff=Table(), max_attempts=len(pauses) + 1)) == {}


@pytest.mark.one_database
def test_whatever_a_policy_says_the_checks_can_say_it(full):
    tally = Tally("values of policies")

    def judge(option, value):
        tally.tried += 1
        try:
            model = table_with(**{option: value})
            found = ids(model)
            tally.refused += "dbqueue.E014" in found
            policy_of(model)
        except Exception as error:
            tally.crashed(f"{option} = {value!r:.80}", error)

    logging.getLogger("django_dbqueue").setLevel(logging.CRITICAL)
    for option in sorted(OPTIONS):
        for value in NASTY if full else NASTY[::6]:
            judge(option, value)
    for _ in range(2_000 if full else 40):
        option = tally.random.choice(sorted(OPTIONS))
        drawn(ANY, 1, lambda value, option=option: judge(option, value))
    tally.end(2_000 if full else 100)


@pytest.mark.parametrize("option", ["time_to_run", "max_attempts", "backoff", "finish"])
def test_a_worker_that_skips_the_checks_goes_on(option, monkeypatch):
    """With the policy as it would be used, jobs that fail and jobs that do not come to an end."""
    for value in WRONG[option][:3]:
        odd = policy_of(table_with(**{option: value}))
        monkeypatch.setattr("django_dbqueue.lifecycle.table.policy_of", lambda _, odd=odd: odd)
        forget_tables()
        bad = Note.objects.create(action="fail")
        good = [Note.objects.create().pk for _ in range(3)]
        assert work_off({Note: good}, "queueapp.Note") == []
        assert QuerySet(Note).get(pk=bad.pk).status in {Status.DELAYED, Status.BURIED}
        QuerySet(Note)._raw_delete("default")
    monkeypatch.undo()
    forget_tables()
