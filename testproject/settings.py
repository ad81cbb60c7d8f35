"""Settings of the demo and of the tests. Not for production."""

import hashlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import dj_database_url
import django

BASE_DIR = Path(__file__).resolve().parent.parent
# The type checker knows only the models of the apps that are installed.
TESTING = (
    os.environ.get("DBQUEUE_TESTS") == "1"
    or "PYTEST_VERSION" in os.environ
    or "mypy" in sys.modules
)


def sqlite_test_name(checkout: Path = BASE_DIR) -> str:
    """A file, so that threads and processes share it; one per checkout and environment."""
    place = hashlib.sha256(os.fsencode(f"{checkout} {sys.prefix}")).hexdigest()[:12]
    return str(Path(tempfile.gettempdir()) / f"test_dbqueue_{place}.sqlite3")


def database(variable: str = "DATABASE_URL") -> dict[str, Any]:
    """The database of a URL in the environment, or a SQLite file beside manage.py.

    Sockets: postgresql://user@%2Frun%2Fpg/name, mysql://user@localhost/name?unix_socket=/run/m.sock
    """
    config: dict[str, Any] = {
        **dj_database_url.config(variable, default=f"sqlite:///{BASE_DIR / 'testproject.sqlite3'}")
    }
    options = config.setdefault("OPTIONS", {})
    if config["ENGINE"].endswith("sqlite3"):
        options.setdefault("transaction_mode", "IMMEDIATE")
        options.setdefault("timeout", 20)
        options.setdefault("init_command", "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;")
        config["TEST"] = {"NAME": sqlite_test_name()}
    elif config["ENGINE"].endswith("mysql"):
        options.setdefault("charset", "utf8mb4")
        config["TEST"] = {"CHARSET": "utf8mb4"}
    return config


DATABASES = {"default": database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

SECRET_KEY = "for-the-demo-and-the-tests-only"
DEBUG = os.environ.get("DEBUG", "1") == "1"
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", "testserver"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_dbqueue",
    "django_dbqueue.mail",
    "django_dbqueue.tasks",
    "django_dbqueue.bulk",
    "testproject.shop",
]
if TESTING:
    INSTALLED_APPS += ["django_dbqueue.schedules", "django_dbqueue.beanstalk", "tests.queueapp"]
if "pytest" in sys.modules:
    # No worker of a test needs it, and it takes each a tenth of a second to import.
    INSTALLED_APPS += ["anymail"]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "testproject.urls"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
STATIC_URL = "static/"

USE_TZ = os.environ.get("TEST_USE_TZ", "1") == "1"
TIME_ZONE = os.environ.get("TEST_TIME_ZONE", "UTC")

SMTP_HOST = os.environ.get("EMAIL_HOST", "localhost")
SMTP_PORT = int(os.environ.get("EMAIL_PORT", "2525"))
QUEUED_MAIL = "django_dbqueue.mail.backends.EmailBackend"
# From Django 6.1 on, MAILERS and the EMAIL_* settings exclude each other.
if django.VERSION >= (6, 1):
    MAILERS = {
        "default": {"BACKEND": QUEUED_MAIL, "OPTIONS": {"using": "smtp"}},
        "smtp": {
            "BACKEND": "django.core.mail.backends.smtp.EmailBackend",
            "OPTIONS": {"host": SMTP_HOST, "port": SMTP_PORT},
        },
    }
else:
    EMAIL_BACKEND = QUEUED_MAIL
    EMAIL_HOST = SMTP_HOST
    EMAIL_PORT = SMTP_PORT

DBQUEUE: dict[str, Any] = {}

TASKS = {"default": {"BACKEND": "django_dbqueue.tasks.backends.DatabaseBackend"}}
