"""The sums: what the shop did, what the database says, and what the mail server says."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass


@dataclass(frozen=True)
class Account:
    """Sets hold recipients, unless they say otherwise: every order has one of its own."""

    # the shop
    committed: int
    rolled_back: int
    to_be_deferred: int
    to_be_refused: int
    thumbnails_wanted: int
    # the database
    rows: int
    rolled_back_rows: int
    sent_ids: Set[str]  # Message-IDs
    failed: Set[str]
    retried: Set[str]
    thumbnails_made: int
    # the mail server
    taken: Mapping[str, int]  # by Message-ID
    taken_from: Set[str]
    deferred: Set[str]
    refused: Set[str]
    rolled_back_taken: int
    # the killed worker
    in_hand: Mapping[str, str]  # Message-ID: recipient
    runner_threads: int
    # how the other one ended
    exit_code: int
    workers_left: int

    @property
    def duplicates(self) -> Set[str]:
        """The Message-IDs that were taken more than once."""
        return {message_id for message_id, times in self.taken.items() if times > 1}

    @property
    def extra(self) -> int:
        """How many deliveries were one too many."""
        return sum(self.taken.values()) - len(self.taken)

    @property
    def unnoted(self) -> Set[str]:
        """Deferred and tried again, but the worker died before it could note the deferral."""
        return self.deferred - self.retried

    def problems(self) -> list[str]:
        """What does not add up, in words; empty when all does."""
        return [
            *self._database_problems(),
            *self._delivery_problems(),
            *self._answer_problems(),
            *self._kill_problems(),
        ]

    def _database_problems(self) -> Iterator[str]:
        if self.rows != self.committed:
            yield f"{self.committed} orders were committed, but {self.rows} messages are queued"
        sent, failed = len(self.sent_ids), len(self.failed)
        if sent + failed != self.rows:
            yield f"{self.rows} messages, but {sent} sent and {failed} failed"
        if self.rolled_back_rows:
            yield f"{self.rolled_back_rows} messages of rolled back orders are in the queue"
        if self.thumbnails_made != self.thumbnails_wanted:
            yield f"{self.thumbnails_made} of {self.thumbnails_wanted} thumbnails were made"

    def _delivery_problems(self) -> Iterator[str]:
        if lost := self.sent_ids - self.taken.keys():
            yield f"{len(lost)} messages are marked as sent, but never arrived: {_some(lost)}"
        if stray := self.taken.keys() - self.sent_ids:
            yield f"{len(stray)} messages arrived that are not marked as sent: {_some(stray)}"
        if self.rolled_back_taken:
            yield f"{self.rolled_back_taken} messages of rolled back orders arrived"

    def _answer_problems(self) -> Iterator[str]:
        if self.failed != self.refused or len(self.refused) != self.to_be_refused:
            yield (
                f"{self.to_be_refused} messages were to be refused, the server refused "
                f"{len(self.refused)}, {len(self.failed)} are marked as failed: "
                f"{_some(self.failed ^ self.refused)}"
            )
        if len(self.deferred) != self.to_be_deferred:
            yield f"{self.to_be_deferred} were to be deferred, {len(self.deferred)} were"
        if given_up := self.deferred - self.taken_from:
            yield f"{len(given_up)} deferred messages never came again: {_some(given_up)}"
        if wild := self.retried - self.deferred:
            yield f"{len(wild)} messages were retried that nobody deferred: {_some(wild)}"

    def _kill_problems(self) -> Iterator[str]:
        if self.extra > self.runner_threads:
            yield f"{self.extra} duplicates for {self.runner_threads} killed runner threads"
        if strange := self.duplicates - self.in_hand.keys():
            yield f"{len(strange)} duplicates that the killed worker never had: {_some(strange)}"
        at_fault = self.unnoted & set(self.in_hand.values())
        if self.unnoted != at_fault or len(at_fault) > self.runner_threads:
            yield f"{len(self.unnoted)} deferrals are not on record: {_some(self.unnoted)}"
        if self.exit_code or self.workers_left:
            yield (
                f"the worker that was asked to stop ended with exit code {self.exit_code}, "
                f"{self.workers_left} workers are still registered"
            )


def _some(names: Set[str]) -> str:
    shown = sorted(names)[:3]
    return ", ".join(shown) + (", ..." if len(names) > len(shown) else "") if shown else "-"
