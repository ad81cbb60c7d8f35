"""Our classes with unfold's beside them, as its users write them."""

from django.contrib import admin
from unfold.admin import ModelAdmin

from django_dbqueue.admin import ArchivedJobAdmin, JobAdmin
from testproject.urls import urlpatterns  # noqa: F401  # Django's name
from tests.queueapp.models import ArchivedKept, Note


class NoteAdmin(JobAdmin, ModelAdmin):
    pass


class ArchivedKeptAdmin(ArchivedJobAdmin, ModelAdmin):
    pass


for model, its_admin in ((Note, NoteAdmin), (ArchivedKept, ArchivedKeptAdmin)):
    admin.site.unregister(model)
    admin.site.register(model, its_admin)
