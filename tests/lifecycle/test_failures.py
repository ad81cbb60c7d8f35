"""The kind of a failure: what tells two apart."""

import smtplib
import socket
import sys

import pytest

from django_dbqueue.lifecycle.errors import entry
from django_dbqueue.lifecycle.failures import failure_of, place_in, place_of, without_values

ALIKE = {
    "no file 17 of 20": "no file 3 of 9",
    "no user 'anna'": "no user 'bert o\"x'",
    'key "a" is missing': 'key "b c" is missing',
    "mail to anna@x.example bounced": "mail to bert.b+1@mail.y.example bounced",
    "object at 0x7f12ab is gone": "object at 0x7f99 is gone",
    "0b6ee5a2-6d53-4d5c-9f9e-0d8f1f6f0a11 broke": "9c4dd5b1-1111-4d5c-8f9e-0d8f1f6f0a22 broke",
    "digest 9f86d081884c7d65 differs": "digest 2c26b46b68ffc68f differs",
    "10.0.0.1:25 refused": "192.168.1.7:587 refused",
    "keys 1, 2, 3 are gone": "keys 4, 5 are gone",
    "it took 1.5 s\nand more": "it took 22,000.75 s\nand other things",
}
DIFFERENT = {
    "no file": "no user",
    "don't do it, can't": "don't do it, won't",
    "a decade ago": "a facade ago",
}


@pytest.mark.parametrize("message", ALIKE)
def test_what_differs_from_job_to_job_is_taken_out_of_a_message(message):
    assert without_values(message) == without_values(ALIKE[message])
    assert without_values(message).split()


@pytest.mark.parametrize("message", DIFFERENT)
def test_words_tell_failures_apart(message):
    assert without_values(message) != without_values(DIFFERENT[message])


def test_a_long_message_is_looked_at_as_far_as_it_matters():
    assert len(without_values("a@" * 100_000)) <= 200
    assert without_values("") == ""


def raised(work):
    try:
        work()
    except Exception as error:
        return error


def at_one_place():
    raise ValueError("no file 1")


def at_another():
    raise ValueError("no file 2")


def kind(error):
    return failure_of(entry(error, attempt=1, owner=None))


def test_a_failure_is_a_class_at_a_place_with_words():
    one = kind(raised(at_one_place))
    assert (one.exception, one.words) == ("builtins.ValueError", "no file #")
    assert one.place == f"{__name__}.at_one_place"
    assert len(one.fingerprint) == 12
    assert kind(raised(at_one_place)) == one
    assert kind(raised(at_another)).fingerprint != one.fingerprint
    assert kind(ValueError("no file 1")).fingerprint != one.fingerprint
    assert kind(KeyError("no file 1")).fingerprint != kind(ValueError("no file 1")).fingerprint


def test_a_class_may_be_called_whatever_python_lets_it():
    odd = type("Odd", (Exception,), {"__module__": "half \ud800\0"})
    made = entry(odd("no"), attempt=1, owner=None)
    assert failure_of(made).exception == made["class"] == "half \\ud800\\0.Odd"


def test_the_place_is_the_innermost_function_of_the_project():
    def ours():
        smtplib.SMTP().sendmail("a@x.example", [], "")

    error = raised(ours)
    assert place_of(error) == f"{__name__}.{ours.__qualname__}"
    # As of mail, which no code of the project's sends.
    of_others = error.__traceback__.tb_next.tb_next
    assert place_of(error.with_traceback(of_others)).startswith("smtplib.SMTP.")
    assert place_of(ValueError("never raised")) == ""


def test_of_a_process_that_was_stopped_it_is_where_its_job_began():
    folder = sys.path[0] or "."
    stack = "\n".join(
        [
            f'  File "{socket.__file__}", line 12 in recv',
            f'  File "{folder}/shop/deep.py", line 3 in wait',
            f'  File "{folder}/shop/models.py", line 99 in run',
            f'  File "{smtplib.__file__}", line 1 in odd',
        ]
    )
    assert place_in(stack) == "shop.models.run"
    assert place_in("no stack") == ""
