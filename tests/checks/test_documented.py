"""The pages of the docs name every system check, and whatever is to be imported."""

import re
from functools import cache
from importlib import import_module
from inspect import getmembers, isclass
from pathlib import Path
from typing import Any

import pytest
from django.test.utils import isolate_apps

from django_dbqueue import exceptions, models, signals
from django_dbqueue.checks.tables import check_table
from django_dbqueue.models import ArchivedJob, Job

PACKAGE = Path(__file__).resolve().parents[2] / "django_dbqueue"
DOCS = PACKAGE.parent / "docs"
ID = re.compile(r"\bdbqueue\w*\.[A-Z]\d{3}\b")
ROW = re.compile(r"^\| `(dbqueue\w*\.[A-Z]\d{3})` \| (.+?) \| (.+?) \|$", re.MULTILINE)
CHECKS = (DOCS / "checks.md").read_text()
REFERENCE = (DOCS / "reference.md").read_text()
PATHS = re.findall(r"^\| `(django_dbqueue[\w.]*)\.(\w+)` \|", REFERENCE, re.MULTILINE)
# Parts of Job.Meta, which a table inherits.
UNSAID = {"DedupConstraint", "HotIndex", "PartialIndex"}


@cache
def ids_in_the_code():
    return {found for path in PACKAGE.rglob("*.py") for found in ID.findall(path.read_text())}


def test_every_check_has_a_row_with_its_cause_and_its_remedy_and_no_row_is_of_none():
    rows = ROW.findall(CHECKS)
    assert len(rows) > 30
    assert len({check_id for check_id, _, _ in rows}) == len(rows)
    assert {check_id for check_id, _, _ in rows} == ids_in_the_code()
    assert all(len(cause) > 10 and len(remedy) > 10 for _, cause, remedy in rows)


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_no_page_speaks_of_a_check_that_is_none(page):
    named = {found for found in ID.findall(page.read_text()) if ".md" not in found}
    assert named <= ids_in_the_code()


@pytest.mark.parametrize(("module", "name"), PATHS, ids=lambda part: part)
def test_what_the_reference_names_can_be_imported(module, name):
    assert hasattr(import_module(module), name)


def test_every_error_model_and_signal_that_users_meet_has_its_import_path():
    known = {name for _, name in PATHS}
    # All that are `Told` are caught as `ValueError`, by users too.
    errors = {name for name, _ in getmembers(exceptions, is_error)} - {"Told"}
    sent = {name for name in vars(signals) if name.startswith(("job_", "worker_"))}
    assert errors | sent | {Job.__name__, ArchivedJob.__name__, *models.__all__} <= known | UNSAID


def is_error(one):
    return isclass(one) and one.__module__ == exceptions.__name__


@isolate_apps("tests.queueapp")
def test_the_archive_in_the_reference_passes_all_checks():
    [example] = [
        part
        for part in re.findall(r"```python\n(.*?)```", REFERENCE, re.DOTALL)
        if "ArchivedP" in part
    ]
    example = example.replace("shop.", "queueapp.")
    names: dict[str, Any] = {"__name__": "tests.queueapp.models"}
    exec(example, names)  # the docs' own words
    assert check_table(names["Parcel"]) == []
