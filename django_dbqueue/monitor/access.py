"""Who may read what machines are told: clients with the token, and people with the permission; and
how a view tells them of what is away."""

import hmac
from collections.abc import Callable
from typing import TypeVar

from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse

from ..conf import conf

View = TypeVar("View", bound=Callable[..., HttpResponse])

HOW_TO_LOOK = (
    "Give the token: Authorization: Bearer ... It is DBQUEUE['METRICS_TOKEN'], which is not set: "
    "until it is, only who is logged in and has the permission dbqueue.view_queue may look.\n"
)


def may_read(request: HttpRequest) -> bool:
    return has_token(request) or _has_permission(request, "dbqueue.view_queue")


def may_see_workers(request: HttpRequest) -> bool:
    """Of one who ``may_read``."""
    return has_token(request) or _has_permission(request, "dbqueue.view_worker")


def has_token(request: HttpRequest) -> bool:
    """Whether it brings ``METRICS_TOKEN`` along, which is set."""
    token = conf["METRICS_TOKEN"]
    kind, _, given = request.headers.get("Authorization", "").partition(" ")
    is_given = kind.lower() == "bearer" and bool(token)
    return is_given and hmac.compare_digest(given.strip().encode(), str(token).encode())


def _has_permission(request: HttpRequest, name: str) -> bool:
    user = getattr(request, "user", None)
    return user is not None and user.is_active and user.has_perm(name)


def refusal(realm: str) -> HttpResponse:
    if conf["METRICS_TOKEN"]:
        headers = {"WWW-Authenticate": f'Bearer realm="{realm}"'}
        return HttpResponse("The token is wrong or missing.\n", status=401, headers=headers)
    return HttpResponse(HOW_TO_LOOK, status=403, content_type="text/plain")


def outside_transactions(view: View) -> View:
    """A view that no database's ATOMIC_REQUESTS wraps: the first table or database that cannot be
    asked would take all others with it."""
    for alias in connections:
        view = transaction.non_atomic_requests(using=alias)(view)
    return view
