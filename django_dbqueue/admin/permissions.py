"""What people may do to the jobs of a table, each by a permission of its own."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth import get_permission_codename
from django.http import HttpRequest

Allows = Callable[..., bool]


def allows(codename: str) -> Allows:
    """The ``has_.._permission`` of a ModelAdmin for one of its own model's permissions."""

    def has_permission(model_admin: Any, request: HttpRequest, *_: Any) -> bool:
        name = get_permission_codename(codename, model_admin.opts)
        return request.user.has_perm(f"{model_admin.opts.app_label}.{name}")

    return has_permission


class Permissions:
    """Inspect is to see what a job holds; the others are its verbs."""

    has_inspect_permission = allows("inspect")
    has_retry_permission = allows("retry")
    has_bury_permission = allows("bury")
    has_release_permission = allows("release")
    has_cancel_permission = allows("delete")
    has_export_permission = allows("export")
