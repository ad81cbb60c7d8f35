from django.contrib import admin

from django_dbqueue.admin import ArchivedJobAdmin, JobAdmin

from .models import ArchivedKept, Note, Shared

admin.site.register(Note, JobAdmin)
admin.site.register(Shared, JobAdmin)
admin.site.register(ArchivedKept, ArchivedJobAdmin)
