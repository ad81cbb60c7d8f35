"""Django's own options stand before or after the verb."""

import pytest
from django.core.management import load_command_class

from django_dbqueue.management.operating import OPERATING
from django_dbqueue.management.verbs import VERBS

pytestmark = pytest.mark.any_database


def parsed(*words):
    parser = load_command_class("django_dbqueue", "dbqueue").create_parser("manage.py", "dbqueue")
    return vars(parser.parse_args(words))


GIVEN = ("--settings", "a.b", "--no-color", "-v", "0")


@pytest.mark.parametrize("verb", ["status", "workers", "failures", "schedule list"])
def test_they_are_the_same_before_and_after_it(verb):
    words = verb.split()
    after = parsed(*words, *GIVEN)
    assert after == parsed(*GIVEN, *words)
    assert (after["settings"], after["no_color"], after["verbosity"]) == ("a.b", True, 0)


def test_what_is_not_given_after_it_is_as_it_was_before():
    assert parsed("-v", "3", "status")["verbosity"] == 3
    assert parsed("status")["verbosity"] == 1


@pytest.mark.parametrize("verb", sorted(OPERATING | VERBS))
def test_no_help_of_a_verb_is_longer_for_them(verb, capsys):
    with pytest.raises(SystemExit):
        parsed(verb, "--help")
    assert "--pythonpath" not in capsys.readouterr().out
