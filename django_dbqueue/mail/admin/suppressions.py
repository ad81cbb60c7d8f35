"""Addresses that get no more mail: added and deleted here, and found by the whole of them."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.admin import ModelAdmin, ShowFacets
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ...admin.lists import CappedPaginator
from ..deliveries import address_of
from ..models import Suppression
from ..models.suppression import normal

if TYPE_CHECKING:  # at run time they take no parameters
    Base = ModelAdmin[Suppression]
    FormBase = forms.ModelForm[Suppression]
else:
    Base = ModelAdmin
    FormBase = forms.ModelForm


class SuppressionForm(FormBase):
    def clean_address(self) -> str:
        """As it is compared, so that a twin is seen here."""
        address = normal(address_of(self.cleaned_data["address"]))
        if "@" not in address:
            raise forms.ValidationError(_("This is no address, as anna@example.com is."))
        return address


@admin.register(Suppression)
class SuppressionAdmin(Base):
    form = SuppressionForm
    fields = ("address", "reason", "note")
    list_display = ("address", "reason", "note", "created_at")
    list_filter = ("reason",)
    ordering = ("-id",)
    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    list_per_page = 50
    search_fields = ("address",)
    search_help_text = gettext_lazy("A whole address")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if search_term.strip():
            queryset = queryset.filter(address=normal(address_of(search_term)))
        return queryset, False

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Whom it is about is said in the question alone, not in the log."""
        _shown, *others = super().get_deleted_objects(objs, request)
        return [f"{one}: {one.address}" for one in objs], *others

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
