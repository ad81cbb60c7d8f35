"""A message that was read from the queue can be queued again, as resending does."""

import json

import pytest
from django.core.mail import EmailMultiAlternatives

from django_dbqueue.mail.storing import codec


@pytest.mark.parametrize("name", ["mixed_subtype", "alternative_subtype"])
def test_one_that_says_how_its_parts_belong_together(name):
    message = EmailMultiAlternatives("Hello", "text", "shop@x.example", ["anna@x.example"])
    message.attach("a.txt", "text", "text/plain")
    stored = {**json.loads(codec.encode(message)), name: "related"}
    assert json.loads(codec.encode(codec.decode(json.dumps(stored)))) == stored
