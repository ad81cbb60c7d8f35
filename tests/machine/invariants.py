"""What holds of every row at every moment, whatever was done: asked of the rows alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.machine.oracle import BURIED, CLAIMED, DELAYED, DONE, MAX_ATTEMPTS, MAX_CRASHES, READY

Row = Mapping[str, Any]


def check_row(row: Row) -> None:
    status = row["status"]
    assert status in {READY, CLAIMED, DONE, DELAYED, BURIED}
    if status == CLAIMED:
        assert row["owner"], "claimed by nobody"
        assert row["dequeued_time"], "claimed at no time"
    elif status != DONE:
        assert (row["owner"], row["dequeued_time"]) == (None, None), "owned, but not claimed"
    moves = {CLAIMED, DELAYED, DONE}
    assert (row["retry_at"] is not None) == (status in moves), "when does it move by itself?"
    assert (row["finished_at"] is not None) == (status in {DONE, BURIED})
    assert 0 <= row["attempts"] <= MAX_ATTEMPTS
    assert 0 <= row["crashes"] <= MAX_CRASHES
    assert (status != CLAIMED) or (row["attempts"] > 0 and row["crashes"] < MAX_CRASHES)
    assert len(row["errors"]) <= 10


def check_table(live: Sequence[Row], archived: Sequence[Row], known: set[Any]) -> None:
    """``known``: the keys of all jobs whose enqueueing was ever committed."""
    for row in live:
        check_row(row)
    keys = [row["id"] for row in [*live, *archived]]
    assert len(set(keys)) == len(keys), "a job is in two places"
    assert known.issuperset(keys), "a job that nobody enqueued"
    names = Counter((row["queue"], row["dedup_key"]) for row in live if row["dedup_key"])
    assert all(count == 1 for count in names.values()), "a dedup_key lives twice"
