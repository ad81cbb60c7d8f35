"""What is asked of one queue: by its table's ``class Policy``, or by the setting ``QUEUES``."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..conf import cached, conf
from .policy import PROBLEMS, QUEUE_OPTIONS, Policy, policy_of

Options = Mapping[str, Any]

# By label of a queue table, options that it cannot have, and why.
UNFIT: dict[str, Mapping[str, str]] = {}


def policy_of_queue(model: type[Any], queue: str) -> Policy:
    """The policy of a queue table, as it is for one of its queues: a queue that is named in
    ``QUEUES`` has what is said there, then what is said of its table, then what Policy says."""
    by_queue = _given(model._meta.label_lower)
    if not by_queue:
        return policy_of(model)  # type: ignore[arg-type]
    given = {**by_queue.get("", {}), **by_queue.get(queue, {})}
    return replace(policy_of(model), **given)  # type: ignore[arg-type]


def says_anything(model: type[Any], option: str) -> bool:
    """Whether an option is given for a table or one of its queues: else no queue needs a look."""
    if getattr(policy_of_queue(model, ""), option) != getattr(Policy, option):
        return True
    return any(option in given for given in _given(model._meta.label_lower).values())


def named_queues(model: type[Any]) -> list[str]:
    """Those of a table that ``QUEUES`` names."""
    return sorted(queue for queue in _given(model._meta.label_lower) if queue)


@cached()
def _given(label: str) -> dict[str, Options]:
    """By queue, '' for all of the table, what makes sense; ``dbqueue.E018`` tells of the rest."""
    found: dict[str, Options] = {}
    for name, given in conf["QUEUES"].items():
        table, _, queue = str(name).partition(":")
        if table.lower() != label or not isinstance(given, Mapping):
            continue
        names = QUEUE_OPTIONS.difference(UNFIT.get(label, ()))
        known = {option: value for option, value in given.items() if option in names}
        found[queue] = {o: value for o, value in known.items() if not PROBLEMS[o](value)}
    return found
