"""The tutorials, worked through as they are printed: each block, in a shell and a new project.

Only the ports are others, since somebody on this machine may have those that are printed. What is
installed by a page is installed by the tests of a night; else the environment of the tests has it.
"""

import re
import shutil
from dataclasses import replace
from http.cookiejar import CookieJar
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, build_opener

import django
import pytest

from tests.kit.mail import free_port
from tests.kit.printed_pages import DOCS, steps_of, write_file
from tests.kit.processes import ROOT
from tests.kit.shell import shell

pytestmark = [pytest.mark.any_database, pytest.mark.process]
# What pip needs of a checkout to build the package.
PACKAGE = (
    *("LICENSE", "MANIFEST.in", "README.md", "django_dbqueue"),
    *("pyproject.toml", "setup.cfg", "setup.py"),
)
PAGES = [page.name for page in sorted(DOCS.glob("tutorial*.md"))]
STATUS = "dbqueue status"  # it exits with 1 where somebody is needed
PORTS = re.compile(r"\b(8000|1025)\b")


class Reader:
    """Does what a page says."""

    def __init__(self, session, name, version):
        self.session, self.version = session, version
        self.steps = steps_of(name)
        self.ports = {"8000": free_port(), "1025": free_port()}

    def work_through(self, *, install):
        for step in self.steps:
            if install or not step.installs:
                self.do(step)
            if install and step.installs:
                self.session.enter("python -m django --version\n")
                self.version = re.search(r"^\d+\.\d+", self.session.seen)[0]

    def do(self, printed):
        text = PORTS.sub(lambda port: str(self.ports[port[1]]), printed.text)
        step = replace(printed, text=text)
        if step.kind == "sh":
            commands = text.replace("runserver", f"runserver {self.ports['8000']}")
            self.session.enter(commands, may_fail=STATUS)
        elif step.kind == "text":
            self.session.shows(text)
        elif step.kind == "python":
            write_file(step, self.session.place, self.version)
        else:
            assert step.kind == "open", step
            look_at(text)


def look_at(address):
    """Ask for it, and log in as the page says."""
    browser = build_opener(HTTPCookieProcessor(cookies := CookieJar()))
    with browser.open(address, timeout=30) as login:
        form = login.url
    [token] = [cookie.value for cookie in cookies if cookie.name == "csrftoken"]
    who = {"username": "anna", "password": "secret", "csrfmiddlewaretoken": token}
    sent = urlencode(who | {"next": urlsplit(address).path}).encode()
    with browser.open(form, sent, timeout=30) as page:
        assert page.url == address
        assert "Log out" in page.read().decode()


def test_a_reader_of_all_tutorials_has_a_folder_for_each():
    made = [
        re.search(r"^mkdir (\S+)\ncd \1$", step.text, re.MULTILINE)[1]
        for page in PAGES
        for step in steps_of(page)[:1]
    ]
    assert len(set(made)) == len(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_each_block_of_a_tutorial_works_as_it_is_printed(page, tmp_path):
    version = ".".join(map(str, django.VERSION[:2]))
    with shell(tmp_path, path=ROOT) as session:
        Reader(session, page, version).work_through(install=False)


@pytest.mark.nightly  # it asks a package index for what a page installs
@pytest.mark.parametrize("page", PAGES)
def test_each_block_of_a_tutorial_works_with_what_it_installs(page, tmp_path):
    checkout = tmp_path / "django-dbqueue"
    checkout.mkdir()
    for name in PACKAGE:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, checkout / name)
    with shell(tmp_path) as session:
        Reader(session, page, "").work_through(install=True)
