"""Every page is read without scripts, too."""

import pytest

from tests.browser import pages


@pytest.mark.proof
@pytest.mark.parametrize("name", pages.names(pages.ONE_OF_EACH, pages.KINDS))
def test_a_page_is_good_without_scripts(browse, scene, keep_picture, name):
    url, expected = pages.address(name, scene), pages.expected(name)
    page = browse(url, scripts=False, expected=expected)
    keep_picture(page, f"{name.replace(' ', '-')}-without-scripts")
    assert page.overflow() <= 0
    assert page.locator("#content").inner_text().strip()
