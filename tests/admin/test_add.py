"""A project's own page to add jobs, where their queue is full."""

import pytest
from django.contrib.admin.sites import AdminSite
from django.contrib.messages import get_messages
from django.contrib.messages.storage.fallback import FallbackStorage

from django_dbqueue.admin import JobAdmin
from tests.kit.bounds import limits
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")
ADD = "/admin/queueapp/note/add/"


class Adding(JobAdmin):
    def has_add_permission(self, request):
        return True


def test_a_full_queue_is_told_to_who_adds_a_job(rf, admin_user):
    def add():
        request = rf.post(ADD)
        request.user, request.session = admin_user, {}
        request._messages, request._dont_enforce_csrf_checks = FallbackStorage(request), True
        response = Adding(Note, AdminSite()).add_view(request)
        return response, [str(one) for one in get_messages(request)]

    with limits(max_length=1):
        Note.objects.create()
        response, [words] = add()
    assert (response.status_code, response.url) == (302, ADD)
    assert "has no room for a job more" in words
    assert Note.objects.count() == 1
