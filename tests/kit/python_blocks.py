"""What is wrong with a block of Python: it does not compile, or names what does not exist."""

import ast
import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

import django
from django.db import models

from django_dbqueue import backoff
from django_dbqueue.conf import Section
from django_dbqueue.lifecycle.policy import PROBLEMS
from django_dbqueue.mail.models import Mailer, Suppression
from django_dbqueue.models import Queue
from django_dbqueue.schedules import schedule
from django_dbqueue.tasks.queued_task import DEFAULTS
from django_dbqueue.testing import InlineWorker
from tests.queueapp.models import Note

# Apps of the examples, and packages that they show and our tests do not need.
OF_EXAMPLES = {"shop", "project", "mysite"}
NOT_INSTALLED = {"httpx", "mailer", "post_office", "stripe", "unfold"}
SETTINGS = {f"{section.prefix}{name}" for section in Section.all for name in section.defaults}
OF_TASKS = {"priority", "queue_name", "backend", "takes_context", "run_after", *DEFAULTS}
CALLABLES: dict[str, Any] = {
    "Exponential": backoff.Exponential,
    "Fixed": backoff.Fixed,
    "Listed": backoff.Listed,
    "InlineWorker": InlineWorker,
    "schedule": schedule,
}
MANAGERS = [
    *(model._default_manager for model in (Note, Queue, Mailer, Suppression)),
    Note.objects.all(),
    models.QuerySet(Note),
]


def problems(text: str) -> list[str]:
    try:
        tree = parsed(text)
    except SyntaxError as error:
        return [f"it does not compile: {error}"]
    return [
        problem
        for node in ast.walk(tree)
        for look in (of_import, of_settings, of_call, of_queryset)
        for problem in look(node)
    ]


def parsed(text: str) -> ast.Module:
    """Of a whole block; or of one whose paragraphs are parts of a dict."""
    with suppress(SyntaxError):
        return ast.parse(text)
    parts = [part for part in text.split("\n\n") if part.strip()]
    return ast.parse("\n".join(f"{{\n{part}\n}}" for part in parts))


def of_import(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from of_module(alias.name, [])
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield from of_module(node.module or "", [alias.name for alias in node.names])


def of_module(name: str, wanted: list[str]) -> Iterator[str]:
    root = name.partition(".")[0]
    if root in OF_EXAMPLES | NOT_INSTALLED:
        return
    if django.VERSION < (6, 0):
        name = re.sub(r"^django\.tasks\b", "django_tasks", name)
    try:
        module = import_module(name)
    except ImportError as error:
        yield f"{name} cannot be imported: {error}"
        return
    for one in wanted:
        if not hasattr(module, one):
            with suppress(ImportError):
                import_module(f"{name}.{one}")
                continue
            yield f"{name} has no {one}"


def of_settings(node: ast.AST) -> Iterator[str]:
    """Of ``DBQUEUE = {...}``, ``DBQUEUE={...}`` and ``DBQUEUE["..."]``."""
    value: ast.AST | None = None
    if (isinstance(node, ast.Assign) and any(is_dbqueue(target) for target in node.targets)) or (
        isinstance(node, ast.keyword) and node.arg == "DBQUEUE"
    ):
        value = node.value
    if isinstance(value, ast.Dict):
        keys = {
            key.value: of
            for key, of in zip(value.keys, value.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        }
        yield from (f"there is no setting {key}" for key in keys.keys() - SETTINGS)
        queues = keys.get("QUEUES")
        for options in queues.values if isinstance(queues, ast.Dict) else []:
            yield from of_options(options)


def of_options(options: ast.AST) -> Iterator[str]:
    for key in options.keys if isinstance(options, ast.Dict) else []:
        if isinstance(key, ast.Constant) and key.value not in PROBLEMS:
            yield f"there is no option {key.value!r} of a policy"


def is_dbqueue(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "DBQUEUE"


def of_call(node: ast.AST) -> Iterator[str]:
    """Keywords that a callable of ours does not know."""
    if not isinstance(node, ast.Call):
        return
    given = {keyword.arg for keyword in node.keywords if keyword.arg}
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name == "task":
        yield from (f"a task has no option {one}" for one in given - OF_TASKS)
    elif name in CALLABLES:
        known = set(inspect.signature(CALLABLES[name]).parameters)
        yield from (f"{name} has no argument {one}" for one in given - known)
    elif isinstance(node.func, ast.Attribute) and node.func.attr == "using" and given:
        yield from (f"using() of a task has no option {one}" for one in given - OF_TASKS)


def of_queryset(node: ast.AST) -> Iterator[str]:
    """A verb after ``X.objects``, at any depth, that no manager and no queryset has."""
    if not isinstance(node, ast.Attribute):
        return
    inner: ast.AST = node.value
    while isinstance(inner, ast.Call | ast.Attribute):
        if isinstance(inner, ast.Attribute) and inner.attr == "objects":
            if is_after_verbs(node) and not any(hasattr(one, node.attr) for one in MANAGERS):
                yield f"no manager has {node.attr}()"
            return
        inner = inner.func if isinstance(inner, ast.Call) else inner.value


def is_after_verbs(node: ast.Attribute) -> bool:
    """Whether all between ``objects`` and it gives a queryset, as far as its names tell."""
    ends = {"get", "first", "last", "create", "enqueue", "claim", "count"}
    inner: ast.AST = node.value
    while isinstance(inner, ast.Call | ast.Attribute):
        if isinstance(inner, ast.Attribute) and inner.attr in ends:
            return False
        inner = inner.func if isinstance(inner, ast.Call) else inner.value
    return True
