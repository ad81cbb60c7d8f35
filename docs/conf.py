"""The site: `make docs` builds it with Sphinx, from the pages as they are and the docstrings."""

import re
import sys
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
# The package of this checkout, whatever is installed.
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

import search_words  # noqa: E402

import django_dbqueue  # noqa: E402

# The docstrings are read from modules, and models can only be imported in a project.
settings.configure(
    INSTALLED_APPS=[
        "django.contrib.admin",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.messages",
        "django_dbqueue",
        "django_dbqueue.mail",
        "django_dbqueue.tasks",
        "django_dbqueue.schedules",
        "django_dbqueue.beanstalk",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()

project = "django-dbqueue"
author = "django-dbqueue contributors"
copyright = author  # noqa: A001  # the name is Sphinx's
version = release = django_dbqueue.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"django-dbqueue {release}"
html_show_sphinx = False

# Headings are linked to as GitHub names them, so that a link works there, too.
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"

# Names of others that no page of ours describes.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!django_dbqueue\.).*")]

# Pages of the site whose text is a file elsewhere in the checkout.
ELSEWHERE = {
    "about": "README.md",
    "benchmarks": "benchmarks/README.md",
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "security": "SECURITY.md",
}


def read_elsewhere(_: Sphinx, page: str, source: list[str]) -> None:
    """Put the text of such a file in the place of its page; and have links lead to the pages."""
    if page in ELSEWHERE:
        source[0] = (ROOT / ELSEWHERE[page]).read_text().replace("](docs/", "](")
    for name, path in ELSEWHERE.items():
        source[0] = re.sub(rf"\]\((\.\./)?{re.escape(path)}", f"]({name}.md", source[0])


WORDS = search_words.words_by_page(search_words.PAGE.read_text())


def add_words(app: Sphinx, page: str, source: list[str]) -> None:
    """Let the search lead from a word of other systems to the page that explains it."""
    app.env.note_dependency(search_words.PAGE.name)
    if page in WORDS:
        source[0] = search_words.with_entries(source[0], WORDS[page])


def leave_out_columns(*described: Any) -> tuple[str, str] | None:
    """A model's columns are its arguments, which Python knows by no names."""
    arguments, returns = described[-2:]
    return ("", returns) if arguments == "(*args, **kwargs)" else None


def setup(app: Sphinx) -> None:
    app.connect("source-read", read_elsewhere)
    app.connect("source-read", add_words)
    app.connect("autodoc-process-signature", leave_out_columns)
