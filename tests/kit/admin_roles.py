"""What each role gets of every page and every action of the admin: found by asking for all."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.db import connection, transaction
from django.db.models import Model
from django.test import Client, RequestFactory
from django.urls import reverse

from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.bulk.models import BulkAction
from django_dbqueue.exceptions import Bury
from django_dbqueue.mail.models import ArchivedEmail, Email, Mailer, Suppression
from django_dbqueue.models import Queue, Worker
from django_dbqueue.schedules.models import Schedule
from django_dbqueue.tasks.models import AsyncTask, Task
from tests.kit.failures import kind
from tests.queueapp.models import ArchivedKept, Note

MODELS: tuple[type[Model], ...] = (
    Queue,
    Worker,
    Note,
    ArchivedKept,
    Email,
    ArchivedEmail,
    Mailer,
    Suppression,
    Task,
    AsyncTask,
    Schedule,
    TubeJob,
    BulkAction,
)
OURS = "django_dbqueue."
OF_DJANGO = {"changelist", "add", "history", "delete", "change"}
# What a page of ours needs to know, and what only its form sends.
QUEUE = {"table": "queueapp.note", "queue": "default"}
# Of a note of the scene, which is buried.
FAILURE = {
    "table": "queueapp.note",
    "failure": kind(Bury("it does not work")).fingerprint,
    "until": "2100-01-01T00:00:00+00:00",
    "count": "9",
    "confirmed": "yes",
}
ASKED = {"charts": QUEUE | {"span": "hour"}, "pause": QUEUE, "resume": QUEUE | {"queue": "paused"}}
# Of a task: to have jobs enqueued into a queue table takes a permission for that one, too.
SCHEDULE = {
    "name": "new",
    "timing": "0 3 * * *",
    "kind": "task",
    "target": "tests.kit.schedules.greeter",
    "arguments": "{}",
    "missed": "skip",
    "catch_up_within": "60",
    "overlap": "allow",
}
SENT = {
    "pause": {"how": "minutes", "minutes": "5", "reason": "out of paper"},
    "ask": {"verb": "stop"},
    "retry": FAILURE,
    "add": {"address": "new@x.example", "reason": "by hand", "note": "", **SCHEDULE},
    "change": SCHEDULE,
    "delete": {"post": "yes"},
}
ACTION = {
    "confirmed": "yes",
    "post": "yes",
    "dbqueue-queue": "another",
    "dbqueue-priority": "5",
    "dbqueue-due": "2100-01-01T00:00",
}
LOG_IN = "log in"
# More permissions never get less: so what this role does not get, no single one of its own gets.
BLIND = "all but to look and to change"
# Of permissions; None: not logged in, "all": a superuser.
Codenames = Sequence[str] | None


@dataclass
class Thing:
    """A page, what is sent to it, or an action; and what was answered, by role."""

    model: type[Model]
    name: str
    is_change: bool
    url: str
    data: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    logged: int = 0

    def ask(self, client: Client) -> str:
        return self._change(client) if self.is_change else self._look(client)

    def _look(self, client: Client) -> str:
        response = client.get(self.url, self.data)
        if response.status_code == 302 and response["Location"].startswith("/admin/login/"):
            return LOG_IN
        return {200: "yes", 302: "elsewhere"}.get(response.status_code, str(response.status_code))

    def _change(self, client: Client) -> str:
        writes = Writes()
        with transaction.atomic(), connection.execute_wrapper(writes):
            response: Any = client.post(self.url, self.data)
            got_file = response.streaming and bool(b"".join(response.streaming_content))
            transaction.set_rollback(True)
        if writes.of_ours or got_file:
            self.logged = writes.of_log
            return "yes"
        if response.status_code == 302:
            return LOG_IN if response["Location"].startswith("/admin/login/") else "no"
        return {200: "no"}.get(response.status_code, str(response.status_code))


class Writes:
    """Counts what was written to tables of ours, and to the admin's log."""

    def __init__(self) -> None:
        self.of_ours = self.of_log = 0

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if re.match(r"\s*(INSERT|UPDATE|DELETE|REPLACE)\b", sql):
            # What is returned row by row has no count yet.
            count = 1 if "RETURNING" in sql else max(0, context["cursor"].rowcount)
            self.of_ours += count if re.search("dbqueue_|queueapp_", sql) else 0
            self.of_log += count if "django_admin_log" in sql else 0
        return result


def things(model: type[Model], rows: Sequence[Model]) -> list[Thing]:
    """Whatever the admin offers for this model, whoever may have it; ``rows``: one, and all."""
    model_admin = admin.site.get_model_admin(model)
    return [*pages(model, model_admin, rows[0]), *actions(model, model_admin, rows)]


def pages(model: type[Model], model_admin: Any, row: Model) -> Iterator[Thing]:
    prefix = f"{model._meta.app_label}_{model._meta.model_name}_"
    # An address of ours may take the place of one of Django's.
    for pattern in {one.name: one for one in reversed(model_admin.get_urls())}.values():
        if not pattern.name:
            continue  # it leads on to another one
        name = pattern.name.removeprefix(prefix)
        keys = dict.fromkeys(pattern.pattern.converters, row.pk)
        url, asked = reverse(f"admin:{pattern.name}", kwargs=keys), ASKED.get(name, {})
        yield Thing(model, f"page {name}", False, url, asked)
        if name not in {"changelist", "history"}:
            yield Thing(model, f"send {name}", True, url, asked | SENT.get(name, {}))


def actions(model: type[Model], model_admin: Any, rows: Sequence[Model]) -> Iterator[Thing]:
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    selected = {"_selected_action": [row.pk for row in rows], **ACTION}
    for name in offered(model_admin):
        yield Thing(model, f"action {name}", True, url, selected | {"action": name})


def offered(model_admin: Any) -> dict[str, Any]:
    """The actions by name, as a superuser has them."""
    request = RequestFactory().get("/")
    request.user = User(is_superuser=True, is_active=True, is_staff=True)
    return {name: function for name, (function, *_) in model_admin.get_actions(request).items()}


# --- roles --------------------------------------------------------------------------------------


def permissions_of(model: type[Model]) -> list[str]:
    options = model._meta
    names = [f"{verb}_{options.model_name}" for verb in options.default_permissions]
    return names + [name for name, _ in options.permissions]


def view_of(model: type[Model]) -> str:
    return f"view_{model._meta.model_name}"


def roles(model: type[Model]) -> dict[str, Codenames]:
    """By the name of the role."""
    own = permissions_of(model)
    each = [name for name in own if name != view_of(model)]
    others = [name for other in MODELS if other is not model for name in permissions_of(other)]
    readers = [view_of(other) for other in MODELS]
    return {
        "anonymous": None,
        "all of other models": others,
        "read-only": readers,
        BLIND: [name for name in own if not name.startswith(("view_", "change_"))],
        **{f"view and {name}": [view_of(model), name] for name in [*each, *siblings(model)]},
        "superuser": "all",
    }


def siblings(model: type[Model]) -> list[str]:
    """What may concern an archive though it is of its queue table; and the queues' page of
    failures."""
    if model is Queue:
        return ["retry_note"]
    if model is not ArchivedEmail:
        return []
    of_django = {f"{verb}_email" for verb in ("add", "change", "delete", "view")}
    return [name for name in permissions_of(Email) if name not in of_django]


class Staff:
    """Two who are logged in, and one who is not."""

    def __init__(self) -> None:
        self.plain = User.objects.create_user("plain", is_staff=True)
        self.chief = User.objects.create_superuser("chief")
        self.clients = {name: Client() for name in ("plain", "chief", "nobody")}
        self.clients["plain"].force_login(self.plain)
        self.clients["chief"].force_login(self.chief)

    def leave(self) -> None:
        self.plain.delete()
        self.chief.delete()

    def as_role(self, codenames: Codenames) -> Client:
        if codenames is None:
            return self.clients["nobody"]
        if codenames == "all":
            return self.clients["chief"]
        found = Permission.objects.filter(codename__in=codenames)
        assert {one.codename for one in found} == set(codenames)
        self.plain.user_permissions.set(found)
        return self.clients["plain"]


def ask_for_all(staff: Staff, model: type[Model], rows: Sequence[Model]) -> list[Thing]:
    """The things with the answers that each role got."""
    found = things(model, rows)
    for role, codenames in roles(model).items():
        client = staff.as_role(codenames)
        for thing in found:
            thing.answers[role] = thing.ask(client)
    return found


# --- as a table ---------------------------------------------------------------------------------

COLUMNS = """\
| what | anonymous | read-only | staff with `view` and one more | superuser |
|---|---|---|---|---|
"""


def as_markdown(found: Sequence[Thing]) -> str:
    """One table per model."""
    text = ""
    for model in dict.fromkeys(thing.model for thing in found):
        lines = [line_of(thing) for thing in found if thing.model is model]
        text += f"\n## {model._meta.label}\n\n{COLUMNS}" + "\n".join(lines) + "\n"
    return text


def line_of(thing: Thing) -> str:
    kind, _, name = thing.name.partition(" ")
    what = {"page": f"see `{name}`", "send": f"send `{name}`", "action": f"do `{name}`"}[kind]
    cells = [what, thing.answers["anonymous"], thing.answers["read-only"], one_more(thing)]
    return f"| {' | '.join([*cells, thing.answers['superuser']])} |"


def one_more(thing: Thing) -> str:
    """Who gets it, and what the others get."""
    got = {
        role.removeprefix("view and "): answer
        for role, answer in thing.answers.items()
        if role.startswith("view and ")
    }
    happy = [name for name, answer in got.items() if answer == "yes"]
    if thing.answers["read-only"] == "yes":
        return "yes"
    sad = "/".join(sorted({answer for answer in got.values() if answer != "yes"}))
    yes = f"yes with {', '.join(f'`{name}`' for name in happy)}"
    return ", else ".join(filter(None, [yes if happy else "", sad]))
