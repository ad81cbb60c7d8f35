"""What people may do in the admin, each by a permission of its own."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth import get_permission_codename
from django.db.models import Model
from django.http import HttpRequest

Allows = Callable[..., bool]


def allows(codename: str) -> Allows:
    """The ``has_…_permission`` of a ModelAdmin for one of its own model's permissions."""

    def has_permission(model_admin: Any, request: HttpRequest, *_: Any) -> bool:
        name = get_permission_codename(codename, model_admin.opts)
        return request.user.has_perm(f"{model_admin.opts.app_label}.{name}")

    return has_permission


def may(request: HttpRequest, model: type[Model], codename: str) -> bool:
    """The same of any model."""
    name = get_permission_codename(codename, model._meta)
    return request.user.has_perm(f"{model._meta.app_label}.{name}")


class ViewOnly:
    """Rows are looked at; nobody adds or edits them."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class JobPermissions:
    """Inspect is to see what a job holds; the others are its verbs."""

    has_inspect_permission = allows("inspect")
    has_retry_permission = allows("retry")
    has_bury_permission = allows("bury")
    has_release_permission = allows("release")
    has_amend_permission = allows("amend")
    has_cancel_permission = allows("delete")
    has_export_permission = allows("export")
