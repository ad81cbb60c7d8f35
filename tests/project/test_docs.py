"""The docs name everything that a user can set, as it is."""

import ast
import re
import textwrap
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

import django_dbqueue
from django_dbqueue.conf import Section
from django_dbqueue.lifecycle.policy import PROBLEMS, Policy
from django_dbqueue.mail.conf import mail_conf
from django_dbqueue.mail.models import Email
from django_dbqueue.states import MOVES, Status

DOCS = Path(__file__).resolve().parents[2] / "docs"
REFERENCE = (DOCS / "reference.md").read_text()
MAIL = (DOCS / "mail.md").read_text()


@pytest.mark.parametrize("section", Section.all, ids=lambda section: section.prefix or "core")
def test_every_setting_is_in_the_reference_with_its_default(section):
    for name, default in section.defaults.items():
        [row] = [
            row for row in REFERENCE.splitlines() if row.startswith(f"| `{section.prefix}{name}`")
        ]
        if isinstance(default, int | float) and not isinstance(default, bool):
            assert f"| {default:g} |" in row or f"| {int(default)} |" in row


@pytest.mark.parametrize("name", mail_conf)
def test_every_setting_of_mail_has_its_unit_and_limits_on_its_page(name):
    [row] = [row for row in MAIL.splitlines() if row.startswith(f"| `MAIL_{name}` |")]
    default = mail_conf.defaults[name]
    if isinstance(default, int | float):
        assert f"| `MAIL_{name}` | {int(default)} |" in row


def test_every_permission_for_mail_is_on_its_page():
    for codename, _ in Email._meta.permissions:
        assert f"`{codename}`" in MAIL


def test_every_policy_option_is_in_the_reference():
    for option in fields(Policy):
        assert f"| `{option.name}` |" in REFERENCE


def test_every_verb_and_state_is_in_the_lifecycle():
    text = (DOCS / "lifecycle.md").read_text()
    assert [word for word in [*MOVES, *Status.labels] if word not in text] == []


def test_every_command_has_help_for_itself_and_for_what_it_takes():
    ours = [name for name, app in get_commands().items() if app == "django_dbqueue"]
    assert set(ours) == {"dbqueue", "runreaper", "runworker"}
    for name in ours:
        command = load_command_class("django_dbqueue", name)
        assert command.help
        assert f"`{name}`" in REFERENCE


def test_the_commands_of_mail_have_help_for_themselves_and_for_what_they_take():
    ours = [name for name, app in get_commands().items() if app == "django_dbqueue.mail"]
    assert set(ours) == {"send_queued_mail", "forget_address", "index_recipients"}
    for name in ours:
        assert load_command_class("django_dbqueue.mail", name).help
        assert f"`{name}`" in REFERENCE


def test_the_changelog_knows_this_version():
    assert django_dbqueue.__version__ in (DOCS.parent / "CHANGELOG.md").read_text()


def policies_of(page):
    """By option, each value that an example of a page gives it by a literal."""
    for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        with suppress(SyntaxError):  # a part of a dict, say
            for node in ast.walk(ast.parse(textwrap.dedent(code))):
                if isinstance(node, ast.ClassDef) and node.name == "Policy":
                    yield from (one for one in node.body if isinstance(one, ast.Assign))


@pytest.mark.parametrize(
    "page", [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.stem
)
def test_the_policies_of_examples_make_sense(page):
    for given in policies_of(page):
        with suppress(ValueError):  # no literal
            [name] = [target.id for target in given.targets]
            value = ast.literal_eval(given.value)
            assert (name, PROBLEMS[name](value)) == (name, "")
