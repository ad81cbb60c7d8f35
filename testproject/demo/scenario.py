"""Who orders what, and what the mail server says to each of them: the domain tells."""

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal

from django.db import transaction

from testproject.shop.images import paint
from testproject.shop.models import Customer, Order, Photo, Thumbnail

TAKEN, BUSY, VERY_BUSY, GONE = "mail.example", "busy.example", "very-busy.example", "gone.example"
NEVER = "changed-their-mind.example"
DEFERRALS = {BUSY: 1, VERY_BUSY: 2}

PHOTOS = 20
NAMES = ("Ada", "Blaise", "Charles", "Dorothy", "Edsger", "Frances", "Grace", "Hedy", "Joan")
MUGS = ("Morning", "Monday", "Giant", "Tiny", "Travel", "Camping", "Office", "Chipped", "Lucky")


class CardDeclined(Exception):
    """Raised by the till, after the order was placed: its transaction is rolled back."""


@dataclass
class Placed:
    """What the shop believes to have done."""

    committed: int = 0
    rolled_back: int = 0
    by_domain: Counter[str] = field(default_factory=Counter)

    @property
    def deferred(self) -> int:
        return self.by_domain[BUSY] + self.by_domain[VERY_BUSY]


def domain_of(number: int) -> str:
    """Three in a hundred do not exist, two are very busy, eight are busy."""
    if number % 32 == 7:
        return GONE
    if number % 50 == 13:
        return VERY_BUSY
    return BUSY if number % 12 == 5 else TAKEN


def domain(address: str) -> str:
    return address.rpartition("@")[2]


def place_orders(count: int) -> Placed:
    """Place ``count`` orders, and one more for every 20 whose card is declined."""
    placed = Placed()
    for number, customer in enumerate(_customers(count)):
        total = Decimal(number % 90 + 10) - Decimal("0.01")
        try:
            _check_out(customer, total)
        except CardDeclined:
            placed.rolled_back += 1
            continue
        placed.committed += 1
        placed.by_domain[domain(customer.email)] += 1
    return placed


def order_thumbnails() -> None:
    for number in range(PHOTOS):
        photo = Photo.objects.create(
            title=f"{MUGS[number % len(MUGS)]} mug {number + 1}", image=paint(number)
        )
        Thumbnail.objects.create(photo=photo)


def _customers(count: int) -> list[Customer]:
    domains = []
    for number in range(count):
        domains.append(domain_of(number))
        if number % 20 == 11:
            domains.append(NEVER)
    people = [_customer(number, domain) for number, domain in enumerate(domains, 1)]
    Customer.objects.bulk_create(people)
    # MySQL does not tell their keys.
    return list(Customer.objects.order_by("pk"))


def _customer(number: int, domain: str) -> Customer:
    name = NAMES[number % len(NAMES)]
    return Customer(name=f"{name} {number}", email=f"{name.lower()}.{number}@{domain}")


def _check_out(customer: Customer, total: Decimal) -> None:
    with transaction.atomic():
        Order.place(customer, total)
        if domain(customer.email) == NEVER:
            raise CardDeclined
