"""Who looks at the pages."""

from django.contrib.auth.models import Permission, User
from django.test import Client

SUPERUSER = "superuser"
READER = "reader"


class People:
    """Users and their sessions, each made when first asked for."""

    def __init__(self):
        self.cookies = {}
        self.users = []

    def cookie_of(self, role):
        if role not in self.cookies:
            client = Client()
            client.force_login(self._make(role))
            self.cookies[role] = client.cookies["sessionid"].value
        return self.cookies[role]

    def leave(self):
        for user in self.users:
            user.delete()

    def _make(self, role):
        user = User.objects.create_user(
            f"{role} of the browser", is_staff=True, is_superuser=role == SUPERUSER
        )
        self.users.append(user)
        if role == READER:
            user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
        return user
