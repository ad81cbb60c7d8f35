"""A small shop: orders that mail their customers, photos with thumbnails."""

from decimal import Decimal
from typing import Self

from django.core.mail import send_mail
from django.db import models, transaction
from django.utils.html import format_html

from django_dbqueue.backoff import Exponential
from django_dbqueue.models import Job

from .images import make_thumbnail

SHOP = "The Mug Shop <orders@shop.example>"


class Customer(models.Model):
    name = models.CharField(max_length=100)
    email = models.EmailField(unique=True)

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>"


class Order(models.Model):
    customer = models.ForeignKey(Customer, on_delete=models.CASCADE)
    total = models.DecimalField(max_digits=10, decimal_places=2)
    placed_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"order {self.pk}"

    @classmethod
    def place(cls, customer: Customer, total: Decimal) -> Self:
        """Make an order and queue its mail: both are committed, or neither."""
        with transaction.atomic():
            order = cls.objects.create(customer=customer, total=total)
            order.mail_customer()
        return order

    def mail_customer(self) -> None:
        """Queue the confirmation in the transaction of whoever calls."""
        name, total = self.customer.name, f"{self.total:.2f} EUR"
        send_mail(
            f"Your order {self.pk}",
            f"Dear {name},\n\nthank you for your order {self.pk} over {total}.\n",
            SHOP,
            [self.customer.email],
            html_message=format_html(
                "<p>Dear {},</p><p>thank you for your order <b>{}</b> over {}.</p>",
                name,
                self.pk,
                total,
            ),
        )


class Photo(models.Model):
    title = models.CharField(max_length=100)
    # In the database, so that the demo leaves nothing but one file behind.
    image = models.BinaryField()

    def __str__(self) -> str:
        return self.title


class Thumbnail(Job):
    """A queue table of the shop's own: a row asks for a small picture, and then holds it."""

    photo = models.ForeignKey(Photo, on_delete=models.CASCADE)
    width = models.PositiveIntegerField(default=160)
    height = models.PositiveIntegerField(default=120)
    png = models.BinaryField(null=True)

    class Meta(Job.Meta):
        pass

    class Policy:
        time_to_run = 60
        max_attempts = 3
        backoff = Exponential(first=10)

    def __str__(self) -> str:
        return f"thumbnail {self.pk}"

    def run(self) -> None:
        self.png = make_thumbnail(bytes(self.photo.image), self.width, self.height)
        self.save()
