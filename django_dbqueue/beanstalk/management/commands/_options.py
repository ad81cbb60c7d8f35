"""The options of ``runbeanstalkd``, and what they mean together."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from ....management.commands._types import alias, connections_at_once, seconds
from ...access import AUTHENTICATION_SECONDS, UNAUTHENTICATED_MAX, Access
from ...credentials import CredentialFiles, Credentials
from ...listening import PATH_MAX, SOCKET_MODE, UNIX, Address, TCPAddress, UnixAddress
from ...protocol import JOB_SIZE, JOB_SIZE_MAX
from ...server import Limits

PORT = 11300
MODE_MAX = 0o777


class BadOptions(ValueError):
    """Options that do not go together; the text names them."""


def add_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--listen", type=address, default=f"127.0.0.1:{PORT}", metavar=_("HOST:PORT or unix:PATH"))
    add("--max-job-size", type=job_size, default=JOB_SIZE, metavar="BYTES")
    add("--max-connections", type=connections_at_once, default=Limits.connections)
    add("--max-per-address", type=connections_at_once, default=Limits.per_address)
    add("--database", type=alias, help=_("the alias; default: where tube jobs are written"))
    add("--insecure", action="store_true", help=_("listen beyond this host, to whom it may be"))
    add("--json", action="store_true", help=_("log one JSON object a line"))
    add("--socket-mode", type=mode, metavar="MODE", help=_("of unix:PATH; default: 0600"))
    _add_access(parser)


def _add_access(parser: ArgumentParser) -> None:
    add = parser.add_argument_group(_("who may connect")).add_argument
    add("--tls-certificate", metavar="FILE", help=_("of the server, in PEM: speak TLS"))
    add("--tls-key", metavar="FILE", help=_("of that certificate"))
    add("--tls-client-ca", metavar="FILE", help=_("clients must show a certificate signed by it"))
    add("--secret-file", metavar="FILE", help=_("clients must say auth SECRET first"))
    add(
        "--authentication-timeout",
        type=patience,
        default=AUTHENTICATION_SECONDS,
        metavar="SECONDS",
        help=_("that a client has for it"),
    )
    add(
        "--max-unauthenticated",
        type=connections_at_once,
        default=UNAUTHENTICATED_MAX,
        help=_("connections that have not shown who they are"),
    )


def address_of(options: Mapping[str, Any]) -> Address:
    """Where to listen; ``BadOptions`` where strangers could come."""
    found: Address = options["listen"]
    if isinstance(found, UnixAddress):
        found.mode = SOCKET_MODE if options["socket_mode"] is None else options["socket_mode"]
    elif options["socket_mode"] is not None:
        text = _("--socket-mode is for --listen unix:PATH, not for %(address)s")
        raise BadOptions(text % {"address": found})
    knows_clients = options["tls_client_ca"] or options["secret_file"]
    is_safe = found.is_local or (options["tls_certificate"] and knows_clients)
    if not (is_safe or options["insecure"]):
        text = _(
            "%(address)s can be reached from other hosts: listen on 127.0.0.1, or give "
            "--tls-certificate and --tls-key with --secret-file or --tls-client-ca, "
            "or say --insecure where only those you trust get through"
        )
        raise BadOptions(text % {"address": found})
    return found


def access_of(options: Mapping[str, Any]) -> Access | None:
    """None = nothing is asked of clients. ``BadOptions``, ``BadCredentials``."""
    certificate, key = options["tls_certificate"], options["tls_key"]
    client_ca, secret = options["tls_client_ca"], options["secret_file"]
    if (certificate is None) != (key is None):
        raise BadOptions(_("--tls-certificate and --tls-key go together: give both, or none"))
    if client_ca is not None and certificate is None:
        raise BadOptions(_("--tls-client-ca needs --tls-certificate and --tls-key"))
    if certificate is None and secret is None:
        return None
    credentials = Credentials(CredentialFiles(certificate, key, client_ca, secret))
    return Access(credentials, options["authentication_timeout"], options["max_unauthenticated"])


def address(text: str) -> Address:
    if text.startswith(UNIX):
        path = text.removeprefix(UNIX)
        if not 0 < len(path.encode()) <= PATH_MAX or "\0" in path:
            why = _("must be unix:PATH, of 1 to %(most)s bytes, not %(given)s")
            raise ArgumentTypeError(why % {"most": PATH_MAX, "given": repr(text)})
        return UnixAddress(path)
    host, _colon, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        why = _("must be HOST:PORT, as 127.0.0.1:%(port)s, or unix:PATH, not %(given)s")
        raise ArgumentTypeError(why % {"port": PORT, "given": repr(text)})
    return TCPAddress(host.strip("[]"), int(port))


def job_size(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= JOB_SIZE_MAX:
        why = _("must be between 1 and %(most)s bytes, not %(given)s")
        raise ArgumentTypeError(why % {"most": JOB_SIZE_MAX, "given": repr(text)})
    return int(text)


def mode(text: str) -> int:
    try:
        found = int(text, 8)
    except ValueError:
        found = -1
    if not 0 <= found <= MODE_MAX:
        why = _("must be an octal number from 0 to %(most)s, not %(given)s")
        raise ArgumentTypeError(why % {"most": f"{MODE_MAX:o}", "given": repr(text)})
    return found


def patience(text: str) -> float:
    if not (found := seconds(text)):
        why = _("must be more than 0 seconds, not %(given)s")
        raise ArgumentTypeError(why % {"given": repr(text)})
    return found
