"""The small project that comes with the package uses tasks, too."""

import pytest

from testproject.shop.models import Customer, Order
from tests.tasks.test_backend import rows, work_off

pytestmark = pytest.mark.usefixtures("db_rows")


def test_orders_are_packed_from_the_admin(browser):
    anna = Customer.objects.create(name="Anna", email="anna@x.example")
    orders = [Order.objects.create(customer=anna, total=1) for _ in range(2)]
    keys = [order.pk for order in orders]
    browser.post("/admin/shop/order/", {"action": "pack_selected", "_selected_action": keys})
    work_off()
    [row] = rows()
    assert row.return_value == {str(key): f"MUG-{key:06d}" for key in keys}
    assert row.progress["done"] == 2
