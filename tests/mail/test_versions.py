"""A message stored under one version of Django is read, and says the same, under the others."""

import pytest

from tests.kit.mail_stored import VERSION, decode, encode, read, said_by, samples, stored

STORED = list(stored())


@pytest.mark.parametrize(
    "entry", [entry for _, entry in STORED], ids=[f"{by}-{e['name']}" for by, e in STORED]
)
def test_a_message_stored_under_any_version_says_the_same_under_this_one(entry):
    found = read(entry)
    for told in ("recipients", "extra", "says"):
        assert found[told] == entry[told]


@pytest.mark.parametrize("name", [name for name, _ in samples()])
def test_each_sample_says_the_same_after_it_was_stored(name):
    message = dict(samples())[name]
    assert said_by(decode(encode(message))) == said_by(message)


def test_every_version_has_stored_every_sample():
    names = {version: {e["name"] for by, e in STORED if by == version} for version, _ in STORED}
    assert set(names) >= {"5.2", "6.0", "6.1"}
    assert names[VERSION] == {name for name, _ in samples()}
