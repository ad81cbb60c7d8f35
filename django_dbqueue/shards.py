"""A queue table on several databases: to which of them a key belongs."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from django.db import router


def shards_of(key: object, among: Sequence[str]) -> list[str]:
    """The aliases in the order in which a key belongs to them; the first is its own.

    It is the same in every process. One alias more takes its share of the keys from each of the
    others, and one less gives its keys to the others: no other key moves.
    """

    def weight(alias: str) -> bytes:
        return blake2b(f"{alias}\0{key}".encode(errors="surrogatepass"), digest_size=8).digest()

    return sorted(among, key=weight)


def only_database(model: type[Any]) -> str:
    """Where a table's rows go of which no router is asked one by one; ``ValueError`` where its jobs
    come in on several."""
    places = model.written_databases()
    if len(places) > 1:
        raise ValueError(
            f"{model._meta.label} is on several databases ({', '.join(places)}): name the one for "
            f"these jobs by using()"
        )
    return str(router.db_for_write(model))
