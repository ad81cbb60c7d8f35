"""Pages in a language that is written from right to left."""

import pytest
from django.test import override_settings

from tests.browser import pages
from tests.browser.chrome import DESKTOP, PHONE

ENDS = """(chosen) => [...document.querySelectorAll(chosen)]
    .map((one) => getComputedStyle(one).direction)"""


@pytest.fixture(autouse=True)
def hebrew(site):
    with override_settings(LANGUAGE_CODE="he"):
        yield


@pytest.mark.parametrize("name", pages.names(pages.ONE_OF_EACH, pages.KINDS))
def test_a_page_is_no_wider_than_the_window(browse, scene, keep_picture, name):
    page = browse(pages.address(name, scene), expected=pages.expected(name))
    assert page.evaluate("() => document.documentElement.dir") == "rtl"
    for size in (DESKTOP, PHONE):
        page.look_like("light", size)
        keep_picture(page, f"rtl-{name.replace(' ', '-')}-{size['width']}")
        assert page.overflow() <= 0, size


def test_time_goes_to_the_right_all_the_same(browse, scene):
    page = browse(pages.address("queues", scene))
    assert set(page.evaluate(ENDS, "svg[class^='dbqueue'], .dbqueue-times")) == {"ltr"}
    assert set(page.evaluate(ENDS, ".dbqueue-queue td")) == {"rtl"}
