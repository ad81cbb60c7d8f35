"""Every page is read without scripts, too."""

import pytest

from tests.browser import pages


@pytest.mark.parametrize("name", pages.KINDS)
def test_a_page_is_good_without_scripts(browse, scene, name):
    url, expected = pages.address(name, scene), pages.expected(name)
    page = browse(url, scripts=False, expected=expected)
    page.keep_picture(f"{name.replace(' ', '-')}-without-scripts")
    assert page.overflow() <= 0
    assert page.locator("#content").inner_text().strip()
