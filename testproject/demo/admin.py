"""``make admin``: the admin on what the demo has left."""

import secrets
import socket
import sys
from pathlib import Path

from django.contrib.auth.models import User
from django.core.management import call_command

from .folder import Refused, shown

HOST = "127.0.0.1"
USER = "demo"


def serve(port: int) -> None:
    """Serve the admin until Ctrl-C."""
    check_port(port)
    password = make_user()
    print(
        f"\n  http://{HOST}:{port}/admin/   user {USER}   password {password}\n\n"
        f"  Ctrl-C ends it.\n",
        flush=True,
    )
    call_command("runserver", f"{HOST}:{port}", use_reloader=False, skip_checks=True)


def make_user() -> str:
    """Give the demo's superuser a new password; the password."""
    password = secrets.token_urlsafe(9)
    user, _ = User.objects.get_or_create(username=USER)
    user.is_staff = user.is_superuser = True
    user.set_password(password)
    user.save()
    return password


def check_port(port: int) -> None:
    try:
        socket.create_server((HOST, port)).close()
    except OSError as error:
        python = shown(Path(sys.executable))
        raise Refused(
            f"Port {port} of {HOST} cannot be had ({error.strerror}). Choose another one:\n"
            f"  {python} -m testproject.demo admin --port {port + 1}"
        ) from None
