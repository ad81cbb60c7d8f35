"""Django's own tests of mail backends, from its source distribution, against ours.

In the mailbox is what the queue delivers: the queued rows are claimed and run, into memory. Not
collected by itself: ``scripts/django_mail_tests.py`` fetches the sources and names their folder.
"""

import os
import sys

import django
import pytest
from django.core import mail
from django.test import TransactionTestCase, override_settings

from django_dbqueue.mail.backends import EmailBackend
from django_dbqueue.mail.models import Email
from django_dbqueue.mail.sending import connections

MEMORY = "django.core.mail.backends.locmem.EmailBackend"
MODERN = django.VERSION >= (6, 1)

sys.path.insert(0, os.environ["DJANGO_TESTS"])
if MODERN:
    from mail.test_backends import ConsoleBackendTests, SharedEmailBackendTests, message_from_bytes

    CONFIGURED = {"MAILERS": {"out": {"BACKEND": MEMORY}}, "DBQUEUE": {}}
    Shared = SharedEmailBackendTests
else:
    from mail.tests import BaseEmailBackendTests, message_from_bytes

    CONFIGURED = {"DBQUEUE": {"MAIL_DELIVERY_BACKEND": MEMORY}}
    Shared = BaseEmailBackendTests
# Else they would be collected as well, with Django's own backends.
BaseEmailBackendTests = SharedEmailBackendTests = None


def deliver():
    """Run what is queued; a failure is the test's."""
    while jobs := Email.objects.claim(limit=10):
        for job in jobs:
            job.run()
            job.complete()


@override_settings(**CONFIGURED)
class QueuedMailTests(Shared, TransactionTestCase):
    email_backend = f"{EmailBackend.__module__}.EmailBackend"
    backend_class = EmailBackend

    def setUp(self):
        super().setUp()
        connections.close_connections()
        mail.outbox = []

    def tearDown(self):
        connections.close_connections()
        super().tearDown()

    def get_mailbox_content(self):
        deliver()
        return [message_from_bytes(message.message().as_bytes()) for message in mail.outbox]

    def flush_mailbox(self):
        deliver()
        mail.outbox = []


if MODERN:

    def create_backend(self, *, alias="test_alias", **options):
        return Shared.create_backend(self, alias=alias, **{"using": "out", **options})

    def create_from_mailers(self):
        Shared.test_create_from_mailers(self, {"using": "custom"})

    QueuedMailTests.create_backend = create_backend
    QueuedMailTests.test_create_from_mailers = create_from_mailers
    # Django's shared test is for backends without fail_silently; of those with it, as ours, each
    # says so by a test like this one.
    QueuedMailTests.test_fail_silently_arg_accepted = (
        ConsoleBackendTests.test_fail_silently_arg_accepted
    )
    ConsoleBackendTests = None


def test_the_shared_tests_were_found():
    assert len([name for name in dir(Shared) if name.startswith("test_")]) >= 10


pytestmark = pytest.mark.usefixtures("django_db_setup")
