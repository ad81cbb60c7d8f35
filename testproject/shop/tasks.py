"""What the shop does with Django Tasks."""

from typing import Any

from django_dbqueue.tasks import task

from .models import Order


@task(takes_context=True, max_attempts=3, backoff=30)
def pack(context: Any, order_ids: list[int]) -> dict[str, str]:
    """The parcels of some orders, by the orders' numbers."""
    parcels = {}
    for number, order in enumerate(Order.objects.filter(pk__in=order_ids), 1):
        parcels[str(order.pk)] = f"MUG-{order.pk:06d}"
        context.progress(number, len(order_ids), f"order {order.pk}")
    return parcels
