"""docs/testing.md: its tests pass as they are printed, and it names what the kit has."""

import inspect
import re
import unittest
from pathlib import Path

import django
import pytest
from django.core import mail

from django_dbqueue import testing
from django_dbqueue.testing.inline import OF_PROCESSES
from django_dbqueue.testing.verbs import Jobs

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "testing.md").read_text()


def printed():
    """The tests and the test cases on the page, by name."""
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block.replace("from shop.", "from testproject.shop."), names)
    return {name: value for name, value in names.items() if name.lower().startswith("test_")}, names


def printed_cases():
    _, names = printed()
    return [value for name, value in names.items() if name.endswith("Test")]


def test_there_are_tests_of_each_kind_on_the_page():
    assert (len(printed()[0]), len(printed_cases())) == (2, 1)


@pytest.mark.parametrize("name", sorted(printed()[0]))
def test_a_test_passes_as_it_is_printed(name, db):
    test = printed()[0][name]
    with Jobs.watched() as jobs:
        test(*[jobs] * len(inspect.signature(test).parameters))


def test_a_test_case_passes_as_it_is_printed(db_rows):
    [case] = printed_cases()
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    assert [text for _, text in result.failures + result.errors] == []
    assert result.testsRun == 2


def test_mail_is_queued_and_delivered_with_the_settings_that_are_printed(
    db, settings, own_connections, mailoutbox
):
    version = "6.1" if django.VERSION >= (6, 1) else "before 6.1"
    [row] = re.findall(rf"^\| {version} \| (.*) \|$", PAGE, re.MULTILINE)
    names = {}
    for assignment in re.findall(r"`(.*?)`", row):
        exec(assignment, names)
    for name in names.keys() - {"__builtins__"}:
        setattr(settings, name, names[name])
    with Jobs.watched() as jobs:
        mail.send_mail("Your mug", "It is ready.", None, ["anna@example.org"])
        assert len(mailoutbox) == 0
        assert jobs.run_all() == 1
    assert [message.subject for message in mailoutbox] == ["Your mug"]


def test_the_page_names_all_that_the_kit_has_and_refuses():
    verbs = [name for name in vars(Jobs) if not name.startswith("_") and name != "watched"]
    assert len(verbs) == 6
    names = [*testing.__all__, *verbs]
    assert [name for name in names if name not in PAGE and name != "Clock"] == []
    options = [f"--{name.replace('_', '-')}" for name in OF_PROCESSES]
    assert [option for option in options if option not in PAGE] == []
