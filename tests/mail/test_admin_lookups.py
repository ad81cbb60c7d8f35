"""Who may not see the contents of mail cannot ask the list for them either."""

import pytest

from tests.kit.mail import archived, enqueue, finished, letter

pytestmark = pytest.mark.usefixtures("db_rows", "queueing")


@pytest.fixture
def reader(people):
    return people("view_email", "view_archivedemail")


@pytest.mark.parametrize("table", ["email", "archivedemail"])
@pytest.mark.parametrize("lookup", ["message__contains", "message__regex", "message"])
def test_the_list_cannot_be_asked_what_a_message_holds(reader, table, lookup):
    archived(finished(letter("carla@x.example", body="Your password is secret")))
    enqueue(letter(body="Your password is secret"))
    response = reader.get(f"/admin/dbqueue_mail/{table}/", {lookup: "secret"}, follow=True)
    assert response.status_code == 400
