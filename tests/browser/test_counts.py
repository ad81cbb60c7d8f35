"""Numbers that were counted a while ago, as people see them."""

import pytest

from django_dbqueue.fields import DbNow
from django_dbqueue.metrics import numbers
from django_dbqueue.models import TableCount
from django_dbqueue.operate import keyset
from tests.browser import pages
from tests.browser.chrome import DESKTOP, PHONE
from tests.kit.counting import count_all
from tests.queueapp.models import Note


@pytest.mark.parametrize("address", [pages.QUEUE, pages.NOTE])
def test_numbers_with_their_age_fit_on_the_page(browse, scene, monkeypatch, keep_picture, address):
    monkeypatch.setattr(numbers, "FEW", 0)
    for name in ("COUNTED_ROWS_MAX", "WINDOW_ROWS", "TAB_WINDOW_ROWS"):
        monkeypatch.setattr(keyset, name, 1)
    count_all(Note)
    TableCount.objects.update(counted_at=DbNow(plus=-7_380))
    page = browse(address)
    for size in (DESKTOP, PHONE):
        page.look_like("light", size)
        keep_picture(page, f"counts-{size['width']}-{address.split('/')[2]}")
        assert "2 h 3 min ago" in page.inner_text("main, #content")
        assert page.inaccessible() == []
        assert page.overflow() <= 0
