from django.contrib import admin

from django_dbqueue.admin import ArchivedJobAdmin, JobAdmin

from .models import ArchivedKept, Note

admin.site.register(Note, JobAdmin)
admin.site.register(ArchivedKept, ArchivedJobAdmin)
