"""A backend of ours whose app is not installed is told before anything is enqueued."""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.any_database, pytest.mark.process]

PROJECT = """
import django
from django.conf import settings
from django.core.management import call_command
settings.configure(
    INSTALLED_APPS={apps}, USE_TZ=True, {setting},
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}},
)
django.setup()
call_command("check")
"""
QUEUE, TASKS = "django_dbqueue", "django_dbqueue.tasks"
WRONG = {
    "TASKS={'default': {'BACKEND': 'django_dbqueue.tasks.DatabaseBackend'}}": "TASKS['default']",
    "EMAIL_BACKEND='django_dbqueue.mail.backends.EmailBackend'": "EMAIL_BACKEND",
    "MAILERS={'x': {'BACKEND': 'django_dbqueue.mail.backends.EmailBackend'}}": "MAILERS['x']",
}


def check(apps, setting):
    code = PROJECT.format(apps=apps, setting=setting)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )
    return run.stderr


@pytest.mark.parametrize("setting", WRONG)
def test_the_setting_and_the_app_are_named(setting):
    said = check([QUEUE], setting)
    assert "dbqueue.E021" in said, said
    assert f"{WRONG[setting]} names" in said
    assert "to INSTALLED_APPS, and migrate" in said


@pytest.mark.parametrize(
    "setting",
    [
        "TASKS={'default': {'BACKEND': 'django_dbqueue.tasks.DatabaseBackend'}}",
        "TASKS={'default': {'BACKEND': 'django.tasks.backends.dummy.DummyBackend'}}",
        "EMAIL_BACKEND='django_dbqueue.nowhere.Backend'",
        "TASKS=7, MAILERS={'a': 7}",
    ],
)
def test_what_is_installed_or_is_not_ours_is_no_error(setting):
    assert "E021" not in check([QUEUE, TASKS], setting)
