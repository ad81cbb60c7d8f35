"""What the words on the pages mean; a test holds it to be what docs/glossary.md says."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.text import slugify
from django.utils.translation import gettext_lazy, pgettext

from ..states import Status
from ..texts.wording import STATES as STATE_WORDS

Words = dict[str, Any]  # what each means, translated when it is shown
STATES: dict[Status, Any] = {
    Status.READY: gettext_lazy("a worker takes it as soon as one is free"),
    Status.CLAIMED: gettext_lazy("a worker has it: it runs, or is about to"),
    Status.DELAYED: gettext_lazy(
        "it becomes ready by itself: at its time, at its retry, or once its concurrency key is free"
    ),
    Status.BURIED: gettext_lazy(
        "its attempts are used up, or somebody parked it: a person decides"
    ),
    Status.DONE: gettext_lazy("it has ended well; later it is archived or deleted"),
}
ACTIONS: Words = {
    "Retry": gettext_lazy(
        "A failed (buried) or delayed job is ready again now, with all its attempts. Some call "
        "this kick, or redrive."
    ),
    "Retry with...": gettext_lazy("The same at a time that you give, or with another time to run."),
    "Reschedule": gettext_lazy("A waiting job runs at another time, sooner or later."),
    "Prioritize": gettext_lazy("It gets another priority; 0 is the most urgent, 1024 the default."),
    "Move": gettext_lazy("It goes to another queue of its table, in the state that it has."),
    "Bury": gettext_lazy(
        "It is parked: nothing runs it until somebody retries it. On mail: Mark as failed."
    ),
    "Release": gettext_lazy(
        "A claimed job is taken from its worker and is ready; what runs now may run twice."
    ),
    "Cancel": gettext_lazy(
        "It is out for good: in the archive as it is, or deleted where there is none."
    ),
    "Pause": gettext_lazy(
        "No worker claims from the queue meanwhile; what runs goes on, and jobs may still be "
        "enqueued."
    ),
    "Resume": gettext_lazy("Workers claim from the queue again, within a second."),
    "Send again": gettext_lazy(
        "The message of an email that has ended is queued once more, as a new mail."
    ),
}
OTHERS: dict[str, tuple[Any, Any]] = {
    "archive": (
        gettext_lazy("archive"),
        gettext_lazy("a table of its own for jobs that have ended"),
    ),
    "attempt": (
        gettext_lazy("attempt"),
        gettext_lazy("one run of a job, counted when it is claimed"),
    ),
    "beat": (
        gettext_lazy("beat"),
        gettext_lazy(
            "a worker's sign of life, every two seconds; late where it has been missing for five "
            "seconds, silent where the worker counts as dead"
        ),
    ),
    "claim": (
        gettext_lazy("claim"),
        gettext_lazy("a worker takes a job; until the claim ends nobody else runs it"),
    ),
    "dedup key": (
        gettext_lazy("dedup key"),
        gettext_lazy("of jobs with the same one only one waits in a queue"),
    ),
    "failure": (
        gettext_lazy("failure"),
        gettext_lazy(
            "a kind of error: same class, place and words once values are taken out of them; its "
            "fingerprint names it"
        ),
    ),
    "kick": (
        gettext_lazy("kick"),
        gettext_lazy("to retry: so it is called in code, and in older logs"),
    ),
    "lane": (
        gettext_lazy("lane"),
        gettext_lazy("the part of a queue for one rate key or mailer, called queue@key"),
    ),
    "overdue": (
        gettext_lazy("overdue"),
        gettext_lazy("its time has come, but no worker has taken it"),
    ),
    "queue, queue table": (
        gettext_lazy("queue, queue table"),
        gettext_lazy(
            "a name by which jobs wait in line; the table, of one kind of jobs, in which all its "
            "queues are"
        ),
    ),
    "reap": (
        gettext_lazy("reap"),
        gettext_lazy("jobs of workers that are gone, or that run for too long, are given back"),
    ),
    "receipt": (
        gettext_lazy("receipt"),
        gettext_lazy(
            "a row in another database which says that a job's effects are there (exactly-once)"
        ),
    ),
    "suspect": (
        gettext_lazy("suspect"),
        gettext_lazy(
            "a job that may have killed a worker: it runs in a child of its own kind (operations)"
        ),
    ),
    "time to run": (
        gettext_lazy("time to run"),
        gettext_lazy("how long a job may run before it is stopped, and counts as failed"),
    ),
    "twin": (
        gettext_lazy("twin"),
        gettext_lazy("a job with the same dedup key in the same queue"),
    ),
    "worker": (
        gettext_lazy("worker"),
        gettext_lazy("a runworker: a supervisor and the children in which jobs run"),
    ),
}
BY_ACTION = {
    "kick_selected": "Retry",
    "kick_with_selected": "Retry with...",
    "reschedule_selected": "Reschedule",
    "prioritize_selected": "Prioritize",
    "move_selected": "Move",
    "bury_selected": "Bury",
    "release_selected": "Release",
    "cancel_selected": "Cancel",
    "resend_selected": "Send again",
}
OF_LISTS = ("attempt", "claim", "failure", "lane", "overdue", "queue, queue table", "time to run")
OF_WORKERS = ("beat", "claim", "reap", "worker")
OF_FAILURES = ("attempt", "failure", "queue, queue table")
OF_QUEUES = ("attempt", "beat", "claim", "failure", "lane", "overdue", "queue, queue table")


@dataclass(frozen=True)
class Word:
    """A word as it stands on a page, and what it means."""

    name: str  # the same in all languages
    term: str
    meaning: str

    @property
    def anchor(self) -> str:
        return f"dbqueue-word-{slugify(self.name)}"


def of_states(labels: Mapping[Status, Any]) -> Iterator[Word]:
    for status, label in labels.items():
        yield Word(status.label, str(label), str(STATES[status]))


def others(names: Iterable[str]) -> Iterator[Word]:
    for name in names:
        term, meaning = OTHERS[name]
        yield Word(name, str(term), str(meaning))


def of_queues() -> Iterator[Word]:
    """Those of the first page."""
    yield from of_states({status: STATE_WORDS[status.label] for status in Status})
    yield from others(OF_QUEUES)
    terms = {"Pause": pgettext("action", "Pause"), "Resume": pgettext("action", "Resume")}
    for name, term in terms.items():
        yield Word(name, term, str(ACTIONS[name]))


def of_actions(labels: Iterable[tuple[str, Any]]) -> Iterator[Word]:
    """Those of buttons, by the names of their actions, as they are called on a table."""
    for action, label in labels:
        if action in BY_ACTION:
            yield Word(BY_ACTION[action], str(label), str(ACTIONS[BY_ACTION[action]]))
