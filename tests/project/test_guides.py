"""The guides: their examples run, with what stands for the other systems' packages and services."""

import sys
from contextlib import contextmanager
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.core.mail import EmailMessage
from django.test.utils import isolate_apps
from django.utils import timezone

from django_dbqueue.checks.tables import check_table
from django_dbqueue.exceptions import Bury
from django_dbqueue.mail.models import Email
from django_dbqueue.tasks.models import Task
from tests.kit.printed_blocks import blocks_of
from tests.kit.processes import ROOT

pytestmark = [pytest.mark.any_database, pytest.mark.usefixtures("db")]


def printed(page, word):
    """The one block of Python of ours on a page that has this word."""
    [found] = [
        block.text
        for block in blocks_of(ROOT / "docs" / page)
        if block.language == "python" and not block.owner and word in block.text
    ]
    return found


@contextmanager
def installed(monkeypatch, **modules):
    """Modules of packages that the tests do without."""
    for path, names in modules.items():
        module = ModuleType(path.replace("__", "."))
        module.__dict__.update(names)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    yield


def queued():
    return Task.objects.values_list("path", "queue", "priority")


# --- tasks


@pytest.mark.parametrize(
    ("page", "word", "name"),
    [
        ("from-celery.md", "tell_the_bank", "tell_the_bank"),
        ("from-rq.md", "photo.pk", "resize_photo"),
        ("from-django-q2.md", "resize_photo", "resize_photo"),
    ],
)
def test_the_task_of_a_guide_is_enqueued(page, word, name, settings, monkeypatch):
    settings.TASKS = {
        "default": {
            "BACKEND": "django_dbqueue.tasks.backends.DatabaseBackend",
            "QUEUES": ["default", "low"],
        }
    }
    one = SimpleNamespace(pk=7)
    guide = ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", guide)
    vars(guide).update(order=one, photo=one)
    exec(printed(page, word), vars(guide))
    [task] = Task.objects.all()
    assert task.state in ("ready", "delayed")
    assert vars(guide)[name].func.__name__ == name


# --- mail


class Old(list):
    """Rows of another package, with as much of a queryset as the loop asks for."""

    def filter(self, status__in=None, pk=None):
        return Old(row for row in self if pk in (None, row.pk) and row.is_queued)

    def order_by(self, _name):
        return Old(self)

    def update(self, **_values):
        for row in self:
            row.is_queued = False


def letter(number):
    return EmailMessage(f"Order {number}", "Thank you.", to=["anna@example.org"])


def test_what_waits_in_post_office_is_moved(monkeypatch):
    def row(pk, **more):
        times = {"scheduled_time": None, "expires_at": None}
        return SimpleNamespace(
            pk=pk, is_queued=True, email_message=lambda: letter(pk), **times | more
        )

    tomorrow = timezone.now() + timedelta(days=1)
    rows = Old(
        [row(1, priority=0), row(2, priority=3), row(3, priority=2, scheduled_time=tomorrow)]
    )
    statuses = SimpleNamespace(queued=2, requeued=3, sent=0)
    there = {"STATUS": statuses, "Email": SimpleNamespace(objects=rows)}
    with installed(monkeypatch, post_office__models=there):
        for _ in range(2):  # it may be run again
            exec(printed("from-post-office.md", "post_office"), {})
    assert [*Email.objects.order_by("pk").values_list("subject", "priority")] == [
        ("Order 1", 4096),
        ("Order 2", 0),
        ("Order 3", 512),
    ]
    assert Email.objects.delayed().get().retry_at == tomorrow


def test_what_waits_in_django_mailer_is_moved(monkeypatch):
    deleted = []

    def row(pk, priority, email):
        return SimpleNamespace(
            pk=pk, priority=priority, email=email, delete=lambda: deleted.append(pk)
        )

    rows = Old([row(1, 1, letter(1)), row(2, 4, letter(2)), row(3, 2, None)])
    there = {"Message": SimpleNamespace(objects=rows)}
    with installed(monkeypatch, mailer__models=there):
        exec(printed("from-django-mailer.md", "mailer.models"), {})
    assert [*Email.objects.order_by("pk").values_list("subject", "priority")] == [
        ("Order 1", 512),
        ("Order 2", 4096),
    ]
    assert deleted == [1, 2]


# --- Stripe


class CardError(Exception):
    code = "card_declined"


class IdempotencyError(Exception):
    pass


@contextmanager
def stripe(monkeypatch, answer):
    """Its module, whose answer is ``answer(**request)``; and the models of the page."""
    intents = SimpleNamespace(create=answer)
    names = {
        "PaymentIntent": intents,
        "CardError": CardError,
        "IdempotencyError": IdempotencyError,
    }
    with installed(monkeypatch, stripe=names), isolate_apps("tests.queueapp"):
        defined = {"__name__": "tests.queueapp.models"}
        models = printed("stripe.md", "class Charge").replace('"shop.Order"', '"queueapp.Note"')
        exec(models, defined)
        exec(printed("stripe.md", "class StripeEvent"), defined)
        yield defined


def charge(models, **columns):
    job = models["Charge"](pk=7, order_id=3, created_at=timezone.now(), **columns)
    job._state.fields_cache["order"] = SimpleNamespace(
        cents=500, stripe_customer="cus_1", payment_method="pm_1"
    )
    return job


def test_a_charge_is_asked_for_by_its_key_at_each_attempt(monkeypatch):
    asked = []

    def answer(**request):
        asked.append(request)
        return SimpleNamespace(id="pi_1")

    with stripe(monkeypatch, answer) as models:
        job = charge(models)
        job.run()
        job.run()
        assert job.intent == "pi_1"
    assert len({request["idempotency_key"] for request in asked}) == 1
    assert (asked[0]["amount"], asked[0]["metadata"]) == (500, {"order": "3"})


@pytest.mark.parametrize(
    ("error", "words"), [(CardError, "declined"), (IdempotencyError, "changed")]
)
def test_a_charge_that_stripe_refuses_is_buried(monkeypatch, error, words):
    def answer(**_request):
        raise error

    with stripe(monkeypatch, answer) as models, pytest.raises(Bury, match=words):
        charge(models).run()


def test_a_charge_whose_key_may_be_forgotten_is_not_asked_for(monkeypatch):
    with stripe(monkeypatch, pytest.fail) as models:
        job = charge(models)
        job.created_at -= timedelta(hours=21)
        with pytest.raises(Bury, match="by hand"):
            job.run()


def test_the_queue_tables_of_the_page_pass_all_checks(monkeypatch):
    with stripe(monkeypatch, pytest.fail) as models:
        for name in ("Charge", "StripeEvent"):
            assert check_table(models[name]) == []


@isolate_apps("tests.queueapp")
def test_the_queue_table_of_tenants_passes_all_checks():
    names: dict[str, Any] = {"__name__": "tests.queueapp.models"}
    exec(printed("tenants.md", "class Export").replace('"shop.Tenant"', '"queueapp.Note"'), names)
    assert check_table(names["Export"]) == []


@isolate_apps("tests.queueapp")
def test_the_queue_table_of_the_first_page_passes_all_checks():
    names: dict[str, Any] = {"__name__": "tests.queueapp.models", "Photo": "queueapp.Note"}
    exec(printed("queue-tables.md", "class Thumbnail(Job)"), names)
    assert check_table(names["Thumbnail"]) == []
