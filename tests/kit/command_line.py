"""``manage.py dbqueue`` within the test's own process."""

import json
from contextlib import suppress
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_dbqueue.management.verbs import ProblemsFound


def dbqueue(*args: Any) -> str:
    """What it prints."""
    out = StringIO()
    call_command("dbqueue", *map(str, args), stdout=out)
    return out.getvalue()


def as_json(*args: Any) -> Any:
    return json.loads(dbqueue(*args, "--json"))


def status(*args: Any) -> str:
    """What ``dbqueue status`` prints, whether or not somebody is needed."""
    out = StringIO()
    with suppress(ProblemsFound):
        call_command("dbqueue", "status", *map(str, args), stdout=out)
    return out.getvalue()


def fails(code: int, *args: Any) -> tuple[str, str]:
    """It ends with this exit code: what it prints, and why."""
    out = StringIO()
    with pytest.raises(CommandError) as failed:
        call_command("dbqueue", *map(str, args), stdout=out)
    assert failed.value.returncode == code
    return out.getvalue(), str(failed.value)


def refused(*args: Any) -> str:
    """It is refused by exit code 2, and prints nothing; why."""
    printed, why = fails(2, *args)
    assert printed == ""
    return why
