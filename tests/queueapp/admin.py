from django.contrib import admin

from django_dbqueue.admin import JobAdmin

from .models import Note

admin.site.register(Note, JobAdmin)
