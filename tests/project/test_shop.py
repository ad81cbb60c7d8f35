"""The test project's shop: mail that lives and dies with its order, and real thumbnails."""

from decimal import Decimal
from io import BytesIO

import django
import pytest
from django.db import transaction
from PIL import Image

from django_dbqueue.mail.models import Email
from django_dbqueue.states import Status
from testproject.settings import QUEUED_MAIL
from testproject.shop.images import paint
from testproject.shop.models import Customer, Order, Photo, Thumbnail
from tests.kit.inline_worker import work_off
from tests.kit.jobs import fresh

MAILERS = {
    "default": {"BACKEND": QUEUED_MAIL, "OPTIONS": {"using": "smtp"}},
    "smtp": {"BACKEND": "django.core.mail.backends.smtp.EmailBackend"},
}

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def customer(settings):
    # Django's test runner, and so pytest-django, turns mail to the memory of this process.
    if django.VERSION >= (6, 1):
        settings.MAILERS = MAILERS
    else:
        settings.EMAIL_BACKEND = QUEUED_MAIL
    return Customer.objects.create(name="Ada <3", email="ada@mail.example")


def test_an_order_queues_its_mail(customer):
    order = Order.place(customer, Decimal("12.5"))
    [email] = Email.objects.ready()
    assert email.recipients == "ada@mail.example"
    message = email.to_message()
    assert f"order {order.pk} over 12.50 EUR" in message.body
    [(html, kind)] = message.alternatives
    assert kind == "text/html"
    assert "Dear Ada &lt;3," in html


def test_order_and_mail_roll_back_together(customer):
    with transaction.atomic():
        Order.place(customer, Decimal(5))
        assert Email.objects.count() == Order.objects.count() == 1
        transaction.set_rollback(True)
    assert Email.objects.count() == Order.objects.count() == 0


def test_an_order_whose_mail_cannot_be_queued_is_not_placed(customer):
    customer.email = "ada@mail.example\nBcc: all@mail.example"
    with pytest.raises(ValueError, match="line breaks"):
        Order.place(customer, Decimal(5))
    assert Order.objects.count() == 0


def test_a_worker_makes_a_thumbnail():
    photo = Photo.objects.create(title="A mug", image=paint(1, 400, 300))
    thumbnail = Thumbnail.objects.create(photo=photo, width=100, height=100)
    work_off("shop.thumbnail")
    made = fresh(thumbnail)
    assert made.status == Status.DONE
    with Image.open(BytesIO(made.png)) as picture:
        assert picture.format == "PNG"
        assert picture.size == (100, 75)


def test_what_is_no_picture_is_retried():
    photo = Photo.objects.create(title="A text", image=b"no picture")
    thumbnail = Thumbnail.objects.create(photo=photo)
    work_off("shop.thumbnail")
    failed = fresh(thumbnail)
    assert failed.status == Status.DELAYED
    assert "UnidentifiedImageError" in failed.last_error
    assert failed.png is None


def test_a_photo_takes_its_thumbnails_with_it():
    photo = Photo.objects.create(title="A mug", image=paint(1, 40, 30))
    Thumbnail.objects.create(photo=photo)
    photo.delete()
    assert Thumbnail.objects.count() == 0
