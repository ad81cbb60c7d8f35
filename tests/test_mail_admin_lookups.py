"""Who may not see the contents of mail cannot ask the list for them either."""

import pytest
from django.contrib.auth.models import Permission, User

from tests.mailing import archived, enqueue, finished, letter

pytestmark = pytest.mark.usefixtures("db_rows", "queueing")


@pytest.fixture
def reader(client):
    user = User.objects.create_user("reader", is_staff=True)
    codenames = ["view_email", "view_archivedemail"]
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client.force_login(user)
    yield client
    client.logout()
    user.delete()


@pytest.mark.parametrize("table", ["email", "archivedemail"])
@pytest.mark.parametrize("lookup", ["message__contains", "message__regex", "message"])
def test_the_list_cannot_be_asked_what_a_message_holds(reader, table, lookup):
    archived(finished(letter("carla@x.example", body="Your password is secret")))
    enqueue(letter(body="Your password is secret"))
    response = reader.get(f"/admin/dbqueue_mail/{table}/", {lookup: "secret"}, follow=True)
    assert response.status_code == 400
