"""What a person reads or copies as one word is not torn apart."""

import pytest

from tests.browser import pages
from tests.browser.chrome import DESKTOP, PHONE

LINES = """() => [...document.querySelectorAll(".dbqueue-whole")]
    .map((one) => [one.textContent, one.getClientRects().length])"""


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["1280", "390"])
@pytest.mark.parametrize(
    ("name", "words"),
    [("workers", {"a" * 8, "b" * 8}), ("schedules", {"0 3 * * *"}), ("page worker", {"a" * 8})],
)
def test_it_stands_on_one_line(browse, scene, name, words, size):
    page = browse(pages.address(name, scene))
    page.look_like("light", size)
    found = dict(page.evaluate(LINES))
    assert words <= found.keys()
    assert set(found.values()) == {1}
