"""Every page: light and dark, wide and narrow, with scripts and without, for eyes and ears."""

import pytest

from tests.browser import pages
from tests.browser.chrome import DESKTOP, PHONE
from tests.browser.scene import build
from tests.conftest import empty_tables

# What axe tries, a picture: what is dark differs by colours, what is narrow by what is beside what.
LOOKS = {
    "light-1280": ("light", DESKTOP, []),
    "dark-1280": ("dark", DESKTOP, ["color-contrast"]),
    "light-390": ("light", PHONE, ["scrollable-region-focusable", "region"]),
    "dark-390": ("dark", PHONE, None),
}


@pytest.fixture(scope="module")
def scene(chrome):
    yield build()
    empty_tables()


@pytest.mark.parametrize("name", pages.ALL)
def test_a_page_is_good_in_every_light_and_width(browse, scene, name, full):
    page = browse(pages.address(name, scene), expected=pages.expected(name))
    wrong = []
    for look, (scheme, size, rules) in LOOKS.items():
        page.look_like(scheme, size)
        page.keep_picture(f"{name.replace(' ', '-')}-{look}")
        found = page.inaccessible(*([] if full else rules)) if full or rules is not None else []
        if (more := page.overflow()) > 0:
            found.append(f"{more} pixels wider than the window")
        wrong += [f"{look}: {text}" for text in found]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", pages.ALL)
def test_a_page_is_good_without_scripts(browse, scene, name):
    page = browse(pages.address(name, scene), scripts=False, expected=pages.expected(name))
    page.keep_picture(f"{name.replace(' ', '-')}-without-scripts")
    assert page.overflow() <= 0
    assert page.locator("#content").inner_text().strip()
