"""Going through a whole table, some keys at a time."""

from collections.abc import Iterator
from typing import TypeVar

from django.db.models import Max, Model, QuerySet

T = TypeVar("T", bound=Model)

SIZE = 2000


def windows(rows: "QuerySet[T]") -> "Iterator[QuerySet[T]]":
    """Parts of a queryset, in the order of their keys; each ends at the 2,000th key, so that no
    statement looks at more rows than these, whatever is asked of them."""
    while True:
        keys = rows.order_by("pk").values("pk")[:SIZE]
        end = keys.aggregate(end=Max("pk"))["end"]
        if end is None:
            return
        yield rows.filter(pk__lte=end)
        rows = rows.filter(pk__gt=end)
