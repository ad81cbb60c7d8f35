"""The catalogues: whole, true to the texts of the code, and compiled."""

import gettext
import os
import subprocess
import sys
from pathlib import Path

import django
import pytest

from tests.kit.catalogues import (
    LANGUAGES,
    LOCALE,
    entries,
    path_of,
    placeholders,
    texts_of_code,
)

ROOT = LOCALE.parents[1]
HEAVY = ("lifecycle", "dialects", "worker")
HOW = "run `make messages`, and translate what is empty or fuzzy"
pytestmark = pytest.mark.any_database


def catalogue(language):
    head, *others = entries(path_of(language, "po").read_text())
    return head, others


def test_there_is_a_catalogue_of_each_language():
    assert sorted(path.name for path in LOCALE.iterdir()) == sorted(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_catalogue_has_every_text_of_the_code_and_no_other(language):
    _, found = catalogue(language)
    known, wanted = {one.id for one in found}, texts_of_code()
    assert (sorted(wanted - known), sorted(known - wanted)) == ([], []), HOW


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_is_translated_and_nobody_has_doubts(language):
    head, found = catalogue(language)
    forms = 1 if "nplurals=1" in head.parts["msgstr"] else 2
    assert [one.id for one in found if not all(one.translations)] == [], HOW
    assert [one.id for one in found if "fuzzy" in one.flags or one.is_obsolete] == [], HOW
    wrong = [one.id for one in found if len(one.translations) != (forms if one.plural else 1)]
    assert wrong == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_translation_has_the_placeholders_of_its_text(language):
    _, found = catalogue(language)
    wrong = [
        one.id
        for one in found
        for text in one.translations
        if placeholders(text)
        not in (placeholders(one.parts["msgid"]), placeholders(one.plural or ""))
    ]
    assert wrong == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_compiled_catalogue_says_what_its_source_says(language):
    _, found = catalogue(language)
    with path_of(language, "mo").open("rb") as file:
        compiled = vars(gettext.GNUTranslations(file))["_catalog"]
    wanted = {}
    for one in found:
        if one.plural is None:
            wanted[one.id] = one.translations[0]
        else:
            wanted |= {(one.id, n): text for n, text in enumerate(one.translations)}
    assert {key: text for key, text in compiled.items() if key != ""} == wanted, HOW


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_text_that_django_has_too_is_translated_as_there(language):
    """A catalogue of an app goes before Django's own, on all pages of a site."""
    _, found = catalogue(language)
    ours = {one.id: one.translations[0] for one in found if one.plural is None}
    for part in ("conf", "contrib/admin"):
        path = Path(django.__file__).parent / part / "locale" / language / "LC_MESSAGES/django.mo"
        with path.open("rb") as file:
            theirs = vars(gettext.GNUTranslations(file))["_catalog"]
        assert {one: ours[one] for one in ours.keys() & theirs.keys()} == {
            one: theirs[one] for one in ours.keys() & theirs.keys()
        }


def test_what_claims_and_completes_knows_nothing_of_translations():
    found = [
        str(path.relative_to(ROOT))
        for part in HEAVY
        for path in (ROOT / "django_dbqueue" / part).rglob("*.py")
        if "translation" in path.read_text() or "wording" in path.read_text().split('"""')[-1]
    ]
    assert found == []


@pytest.mark.parametrize("language", ["en-us", "de", "ja"])
def test_no_language_makes_migrations(language, tmp_path):
    settings = tmp_path / "of_a_language.py"
    settings.write_text(f"from testproject.settings import *\nLANGUAGE_CODE = {language!r}\n")
    own = {"DJANGO_SETTINGS_MODULE": "of_a_language", "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(
        [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"],
        cwd=ROOT,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
