import base64
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from django_dbqueue.admin import JobAdmin

from .models import Customer, Order, Photo, Thumbnail
from .tasks import pack


@admin.register(Customer)
class CustomerAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "email")
    search_fields = ("name", "email")


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("id", "customer", "total", "placed_at")
    list_select_related = ("customer",)
    autocomplete_fields = ("customer",)
    readonly_fields = ("placed_at",)
    ordering = ("-id",)
    actions = ("pack_selected",)

    @admin.action(description="Pack selected orders")
    def pack_selected(self, request: HttpRequest, queryset: QuerySet[Order]) -> None:
        result = pack.enqueue(list(queryset.values_list("pk", flat=True)))
        self.message_user(request, f"A worker packs them: task {result.id}")

    def save_model(self, request: HttpRequest, obj: Order, form: Any, change: bool) -> None:
        """An order that is entered here mails its customer too; the admin's view is atomic."""
        super().save_model(request, obj, form, change)
        if not change:
            obj.mail_customer()


@admin.register(Photo)
class PhotoAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("title", "picture")
    fields = readonly_fields = ("title", "picture")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.display
    def picture(self, photo: Photo) -> SafeString | str:
        return show(photo.image, width=160)


@admin.register(Thumbnail)
class ThumbnailAdmin(JobAdmin):
    list_display = ("id", "picture", "photo", *JobAdmin.list_display[1:])

    def get_queryset(self, request: HttpRequest) -> QuerySet[Thumbnail]:
        # The list names the photo; its full-size image is of no use there.
        queryset = super().get_queryset(request)
        return queryset.select_related("photo").defer("photo__image")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        names = super().get_readonly_fields(request, obj)
        return ["picture" if name == "png" else name for name in names]

    @admin.display
    def picture(self, thumbnail: Thumbnail) -> SafeString | str:
        return show(thumbnail.png, width=80)


def show(png: bytes | memoryview | None, width: int) -> SafeString | str:
    """A picture in the page itself: the shop has no media folder."""
    if not png:
        return "-"
    data = base64.b64encode(png).decode()
    return format_html('<img src="data:image/png;base64,{}" width="{}" alt="">', data, width)
