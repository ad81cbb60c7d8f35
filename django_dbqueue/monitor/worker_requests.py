"""Asking workers to stop, to start again, to drain and to go on."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from django.db.utils import Error

from ..exceptions import Told, gettext_noop
from ..fields import DbNow
from ..models import Worker
from .worker_list import ListedWorker, list_known, list_workers

UUID_PREFIX_MIN = 4  # characters
# What is written into a row by what is asked of its worker.
ASKS: dict[str, dict[str, Any]] = {
    "stop": {"stop_requested_at": DbNow(), "restart_requested": False},
    "restart": {"stop_requested_at": DbNow(), "restart_requested": True},
    "drain": {"drain_requested_at": DbNow()},
    "resume": {"drain_requested_at": None},
}


class UnknownWorker(Told):
    """A name that means no living worker, or more than one; says who lives. By alias in
    ``problems``: why a database cannot be asked, on which it may be known."""

    problems: Mapping[str, Exception] = MappingProxyType({})


def request_stop(name: str, using: str | None = None) -> list[ListedWorker]:
    """Ask the living workers that a name means to stop; which they are.

    A name is a uuid or its beginning (at least 4 characters), ``host:pid``, or a host or what
    ``--name`` says, which means all such workers. ``UnknownWorker`` when it is none of these, or
    cannot be told apart.
    """
    return _request(name, using, "stop")


def request_restart(name: str, using: str | None = None) -> list[ListedWorker]:
    """Ask them to stop with exit code 12: then systemd, a container or a server starts them again,
    with the code that is there by then."""
    return _request(name, using, "restart")


def request_drain(name: str, using: str | None = None) -> list[ListedWorker]:
    """Ask them to claim nothing more, to finish what they have, and to live on."""
    return _request(name, using, "drain")


def request_resume(name: str, using: str | None = None) -> list[ListedWorker]:
    """Let those that were asked to drain go on."""
    return _request(name, using, "resume")


def _request(name: str, using: str | None, verb: str) -> list[ListedWorker]:
    chosen = _named(name, [worker for worker in list_workers(using) if worker.lives])
    for worker in chosen:
        _ask(worker, verb)
    return chosen


def _ask(worker: ListedWorker, verb: str) -> None:
    Worker.objects.using(worker.database).filter(pk=worker.uuid).update(**ASKS[verb])


def request_known(
    verb: str, names: Sequence[str] = (), using: str | None = None
) -> tuple[list[ListedWorker], dict[str, Exception]]:
    """Ask several names, or all that live, on the databases that can be asked; by alias why one
    cannot, unless none can. Where a name is unknown, nobody is asked."""
    found, problems = list_known(using)
    living = [worker for worker in found if worker.lives]
    try:
        chosen = [worker for name in names for worker in _named(name, living)] if names else living
    except UnknownWorker as error:
        error.problems = problems
        raise
    asked = []
    for worker in chosen:
        try:
            _ask(worker, verb)
            asked.append(worker)
        except Error as error:
            problems[worker.database] = error
    if chosen and not asked:
        raise problems[chosen[0].database]
    return asked, problems


def _named(name: str, living: list[ListedWorker]) -> list[ListedWorker]:
    wanted = name.lower()
    by_host = [w for w in living if wanted in {w.host.lower(), f"{w.host}:{w.pid}".lower()}]
    prefix = wanted.replace("-", "")
    by_uuid = [w for w in living if len(prefix) >= UUID_PREFIX_MIN and w.uuid.startswith(prefix)]
    by_name = [w for w in living if w.given_name and wanted == w.given_name.lower()]
    meanings = [found for found in (by_host, by_name, by_uuid) if found]
    one_meaning = len(meanings) <= 1 and len({w.uuid for w in by_uuid}) <= 1
    chosen = meanings[0] if meanings else []
    if not one_meaning or not chosen:
        text = gettext_noop("%(name)s means several workers. Alive:%(alive)s")
        if one_meaning:
            text = gettext_noop("%(name)s means no living worker. Alive:%(alive)s")
        if not living:
            text = gettext_noop("%(name)s means no living worker. Alive: none")
        alive = "".join(f"\n  {w.host}:{w.pid}  {w.uuid}" for w in living)
        raise UnknownWorker(text, name=repr(name), alive=alive)
    return chosen
