"""The last words of the demo: database and mail server side by side."""

from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic

from .account import Account


@dataclass
class Times:
    """Moments, in seconds of the monotonic clock; 0 = not yet."""

    start: float = 0.0
    kill: float = 0.0
    hand_over: float = 0.0
    end: float = 0.0
    jobs_in_hand: int = 0  # of the killed worker
    speed: float = 0.0  # deliveries per second of two workers, before one was killed

    def note_speed(self, deliveries: int, since: float) -> None:
        self.speed = deliveries / max(0.001, monotonic() - since)

    @property
    def seconds(self) -> float:
        return self.end - self.start


def summary(account: Account, times: Times) -> Iterator[str]:
    yield f"  {'':12} {'database':>9} {'mail server':>12}"
    for name, in_database, at_server, remark in _rows(account):
        yield f"  {name:12} {in_database:>9} {at_server:>12}  {remark}".rstrip()
    if account.extra:
        yield "  A duplicate: the server took it, but its worker died before it could record that."
    yield ""
    yield (
        f"  {'hand-over':12} {times.hand_over - times.kill:>7.1f} s  until the other worker had "
        f"the {times.jobs_in_hand} jobs of the killed one"
    )
    yield (
        f"  {'time':12} {times.seconds:>7.1f} s  {account.rows / times.seconds:.0f} messages/s "
        f"over all, {times.speed:.0f} messages/s until the kill"
    )


def _rows(account: Account) -> Iterator[tuple[str, str, str, str]]:
    yield "enqueued", f"{account.rows:,}", "", "= sent + failed"
    yield "sent", f"{len(account.sent_ids):,}", f"{len(account.taken):,}", "the same Message-IDs"
    yield "failed", f"{len(account.failed):,}", f"{len(account.refused):,}", "refused with 550"
    yield "retried", f"{len(account.retried):,}", f"{len(account.deferred):,}", _retried(account)
    yield (
        "rolled back",
        f"{account.rolled_back_rows:,}",
        f"{account.rolled_back_taken:,}",
        f"left of {account.rolled_back} orders' messages",
    )
    limit = f"at most {account.runner_threads}, one per killed runner thread"
    yield "duplicates", "", f"{account.extra:,}", limit
    yield "thumbnails", f"{account.thumbnails_made:,}", "", "made by the same workers"


def _retried(account: Account) -> str:
    text = "deferred with 451, then taken"
    if account.unnoted:
        text += f" ({len(account.unnoted)} cut short by the kill)"
    return text
