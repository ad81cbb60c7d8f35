"""Ready jobs of several queues in one query, those of the first queue first."""

from itertools import chain

from ..states import CLAIMABLE
from .types import Claim, Statement

NAMED = "dbqueue_named_queues"  # what the second one calls the queues that it is told


def candidates(claim: Claim, most: int, begin: str, end: str) -> Statement:
    """The keys of ``most`` jobs; ``begin`` and ``end`` go around what is asked of each queue."""
    one = (
        f"{begin}SELECT {claim.pk} FROM {claim.table} WHERE {CLAIMABLE} AND queue = %s{claim.only} "
        f"ORDER BY priority, {claim.pk} LIMIT %s{end}"
    )
    sql = f"{' UNION ALL '.join([one] * len(claim.queues))} LIMIT %s"
    return sql, [*chain.from_iterable((name, most) for name in claim.queues), most]


def locked_in_turn(claim: Claim) -> Statement:
    """The keys of ``limit`` jobs that nobody has locked, each of them locked; no other one is."""
    of_one = (
        f"SELECT {claim.pk} FROM {claim.table} WHERE {CLAIMABLE} AND queue = {NAMED}.queue_name"
        f"{claim.only} ORDER BY priority, {claim.pk} LIMIT %s FOR UPDATE SKIP LOCKED"
    )
    sql = (
        f"SELECT one.{claim.pk} FROM UNNEST(%s::text[]) AS {NAMED} (queue_name), "
        f"LATERAL ({of_one}) AS one LIMIT %s"
    )
    return sql, [claim.queues, claim.limit, claim.limit]
