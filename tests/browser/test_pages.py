"""Every page: light and dark, wide and narrow, with scripts and without, for eyes and ears."""

import pytest

from tests.browser import pages
from tests.browser.chrome import DESKTOP, PHONE
from tests.browser.scene import build
from tests.conftest import empty_tables

LOOKS = [
    ("light", DESKTOP, "1280"),
    ("dark", DESKTOP, "1280"),
    ("light", PHONE, "390"),
    ("dark", PHONE, "390"),
]


@pytest.fixture(scope="module")
def scene(chrome):
    yield build()
    empty_tables()


@pytest.mark.parametrize("name", pages.ALL)
def test_a_page_is_good_in_every_light_and_width(browse, scene, name):
    page = browse(pages.address(name, scene), expected=pages.expected(name))
    wrong = []
    for scheme, size, width in LOOKS:
        page.look_like(scheme, size)
        page.keep_picture(f"{name.replace(' ', '-')}-{scheme}-{width}")
        # What is dark differs by its colours only.
        found = page.inaccessible(*(["color-contrast"] if scheme == "dark" else []))
        if (more := page.overflow()) > 0:
            found.append(f"{more} pixels wider than the window")
        wrong += [f"{scheme} {width}: {text}" for text in found]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", pages.ALL)
def test_a_page_is_good_without_scripts(browse, scene, name):
    page = browse(pages.address(name, scene), scripts=False, expected=pages.expected(name))
    page.keep_picture(f"{name.replace(' ', '-')}-light-1280-without-scripts")
    assert page.overflow() <= 0
    assert page.locator("main, #content").first.inner_text().strip()
