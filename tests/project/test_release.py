"""``make release`` says what one still lacks."""

import pytest
from release import of_the_changelog, of_the_files, version


def changelog(heading):
    return f"# Changelog\n\n{heading}\n\nWhat is new.\n\n## 0.0.9 (2026-01-01)\n"


def test_a_changelog_that_begins_with_the_version_and_its_day_is_in_order():
    assert list(of_the_changelog(changelog("## 0.1.0 (2026-12-01)"), "0.1.0")) == []


@pytest.mark.parametrize(
    ("heading", "problem"),
    [
        ("## 0.1.0 (unreleased)", "calls 0.1.0 'unreleased'"),
        ("## 0.1.0 (2026-12-32)", "calls 0.1.0 '2026-12-32'"),
        ("## 0.2.0 (2026-12-01)", "begins with 0.2.0, and the package is 0.1.0"),
        ("## 0.1.0", "begins with 0.0.9"),
    ],
)
def test_any_other_is_not(heading, problem):
    [said] = of_the_changelog(changelog(heading), "0.1.0")
    assert problem in said


def test_a_changelog_without_a_heading_is_not_in_order():
    assert len(list(of_the_changelog("# Changelog\n", "0.1.0"))) == 1


def test_an_sdist_and_a_wheel_of_the_version_are_wanted_and_nothing_else(tmp_path):
    (tmp_path / "django_dbqueue-0.1.0.tar.gz").touch()
    assert len(list(of_the_files(tmp_path, "0.1.0"))) == 1
    (tmp_path / "django_dbqueue-0.1.0-py3-none-any.whl").touch()
    assert list(of_the_files(tmp_path, "0.1.0")) == []
    (tmp_path / "django_dbqueue-0.0.9.tar.gz").touch()
    assert len(list(of_the_files(tmp_path, "0.1.0"))) == 1


def test_the_version_is_that_of_the_package():
    from django_dbqueue import __version__

    assert version() == __version__
