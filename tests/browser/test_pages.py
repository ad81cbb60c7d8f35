"""Every page: light and dark, wide and narrow, for eyes and ears."""

import pytest

from tests.browser import pages
from tests.browser.chrome import DESKTOP, PHONE

# What axe tries, a picture: what is dark differs by colours, what is narrow by what is beside what.
LOOKS = {
    "light-1280": ("light", DESKTOP, []),
    "dark-1280": ("dark", DESKTOP, ["color-contrast"]),
    "light-390": ("light", PHONE, ["scrollable-region-focusable", "region"]),
    "dark-390": ("dark", PHONE, None),
}


@pytest.mark.parametrize("name", pages.ALL)
def test_a_page_is_good_in_every_light_and_width(browse, scene, name, full):
    page = browse(pages.address(name, scene), expected=pages.expected(name))
    wrong = []
    for look, (scheme, size, rules) in LOOKS.items():
        if name in pages.OF_ONE_STATE and scheme == "dark" and not full:
            continue  # as dark as the list of all states
        page.look_like(scheme, size)
        page.keep_picture(f"{name.replace(' ', '-')}-{look}")
        found = page.inaccessible(*([] if full else rules)) if full or rules is not None else []
        if (more := page.overflow()) > 0:
            found.append(f"{more} pixels wider than the window")
        wrong += [f"{look}: {text}" for text in found]
    assert not wrong, "\n".join(wrong)
