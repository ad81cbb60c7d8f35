"""A suppressed address is suppressed in all its spellings, and no other with it."""

import pytest

from django_dbqueue.mail.deliveries import Outcome
from django_dbqueue.mail.models import Suppression
from django_dbqueue.mail.models.suppression import Reason
from tests.kit.jobs import fresh
from tests.kit.mail import enqueue, letter, run_mail

pytestmark = [pytest.mark.usefixtures("db_rows", "queueing"), pytest.mark.each_database]


def test_two_spellings_of_one_address_in_a_message_are_both_suppressed():
    Suppression.objects.suppress("anna@x.example", Reason.BOUNCE)
    email = enqueue(letter("Anna@x.example", cc=["anna@x.example"]))
    run_mail()
    found = {entry["outcome"] for entry in fresh(email).deliveries.values()}
    assert found == {Outcome.SUPPRESSED}


@pytest.mark.parametrize("known", ["anna@müller.example", "anna@xn--mller-kva.example"])
@pytest.mark.parametrize("to", ["anna@MÜLLER.example", "anna@xn--mller-kva.example"])
def test_a_domain_may_be_in_unicode_or_in_punycode(known, to):
    Suppression.objects.suppress(known, Reason.BOUNCE)
    assert list(Suppression.objects.among([to])) == [to]


def test_an_umlaut_is_not_its_vowel():
    assert Suppression.objects.suppress("anna@muller.example", Reason.BOUNCE)
    assert list(Suppression.objects.among(["anna@müller.example"])) == []
    assert Suppression.objects.suppress("anna@müller.example", Reason.BOUNCE)
    assert Suppression.objects.count() == 2


def test_a_domain_that_is_none_stops_nothing():
    assert Suppression.objects.among(["anna@ü..example", "b@" + "ü" * 70]) == {}


@pytest.mark.parametrize("make", ["get_or_create", "update_or_create"])
def test_who_may_be_suppressed_already_is_found_in_any_spelling(make):
    ways = ["Anna@Bücher.Example", "anna@xn--bcher-kva.example", "ANNA@BÜCHER.EXAMPLE"]
    made = [getattr(Suppression.objects, make)(address=one, defaults={"note": one}) for one in ways]
    assert [is_new for _, is_new in made] == [True, False, False]
    [row] = Suppression.objects.all()
    assert row.address == "anna@xn--bcher-kva.example"
    assert row.note == ways[0 if make == "get_or_create" else 2]


def test_a_list_of_them_is_stored_as_they_are_compared():
    given = [Suppression(address=one) for one in ["Anna@X.Example", "Bert@Bücher.Example"]]
    Suppression.objects.bulk_create(given)
    assert [one.address for one in given] == ["anna@x.example", "bert@xn--bcher-kva.example"]
    assert len(Suppression.objects.among(["anna@x.example", "Bert@bücher.example"])) == 2


def test_one_is_looked_for_in_any_spelling():
    Suppression.objects.create(address="Anna@Bücher.Example")
    rows = Suppression.objects.filter(address="ANNA@bücher.example")
    assert rows.delete()[0] == 1


@pytest.mark.parametrize("to", ['" anna"@x.example', '"\\"anna\\""@x.example', "J\u030c@x.example"])
def test_a_strange_spelling_is_found_as_it_was_given(to):
    Suppression.objects.create(address=to)
    assert list(Suppression.objects.among([to])) == [to]
    assert not Suppression.objects.suppress(to, Reason.BOUNCE)
    assert Suppression.objects.filter(address=to).delete()[0] == 1
    assert Suppression.objects.suppress(to, Reason.BOUNCE)
    assert list(Suppression.objects.among([to])) == [to]
