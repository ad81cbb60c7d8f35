"""The permissions that docs/mail.md names are those that the admin asks for."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission

from django_dbqueue.mail.models import Email

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.any_database]

DOC = Path(__file__).resolve().parents[2] / "docs" / "mail.md"


def table():
    """By codename, the rest of its line."""
    text = DOC.read_text().partition("| permission `dbqueue_mail.` |")[2].partition("\n\n")[0]
    return {
        name: rest
        for names, rest in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|(.*)$", text, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }


def test_each_of_them_exists():
    known = set(Permission.objects.values_list("codename", flat=True))
    assert len(table()) > 10
    assert set(table()) <= known


def test_each_action_is_named_with_the_permission_that_it_asks_for():
    model_admin = admin.site.get_model_admin(Email)
    names: Any = model_admin.actions
    for name in names:
        function = getattr(model_admin, name)
        [asked] = function.allowed_permissions
        codename = {"cancel": "delete"}.get(asked, asked) + "_email"
        title = function.short_description.partition(" (")[0].rstrip(".")
        assert f"*{title}" in table()[codename], name
