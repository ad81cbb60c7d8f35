"""docs/testing.md: its tests pass as they are printed, and it names what the kit has."""

import re
from pathlib import Path

import pytest

from django_dbqueue import testing
from django_dbqueue.testing.inline import OF_PROCESSES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "testing.md").read_text()


def printed_tests():
    [block] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {}
    exec(block.replace("from shop.", "from testproject.shop."), names)
    return {name: value for name, value in names.items() if name.startswith("test_")}


def test_there_are_two_tests_on_the_page():
    assert len(printed_tests()) == 2


@pytest.mark.parametrize("name", sorted(printed_tests()))
def test_a_test_passes_as_it_is_printed(name, db_rows):
    printed_tests()[name]()


def test_the_page_names_all_that_the_kit_has_and_refuses():
    assert [name for name in testing.__all__ if name not in PAGE and name != "Clock"] == []
    options = [f"--{name.replace('_', '-')}" for name in OF_PROCESSES]
    assert [option for option in options if option not in PAGE] == []
