"""Ready jobs of several queues in one query, those of the first queue first."""

from itertools import chain

from ..states import CLAIMABLE
from .types import Claim, Statement


def candidates(claim: Claim, most: int, begin: str, end: str) -> Statement:
    """The keys of ``most`` jobs; ``begin`` and ``end`` go around what is asked of each queue."""
    one = (
        f"{begin}SELECT {claim.pk} FROM {claim.table} WHERE {CLAIMABLE} AND queue = %s{claim.only} "
        f"ORDER BY priority, {claim.pk} LIMIT %s{end}"
    )
    sql = " UNION ALL ".join([one] * len(claim.queues))
    return f"{sql} LIMIT %s", [*chain.from_iterable((name, most) for name in claim.queues), most]
