"""What the server shows to clients and asks of them: certificates and a secret, in files."""

import hashlib
import hmac
import logging
import os
import re
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path

from ..exceptions import Told, gettext_noop
from .protocol import CRLF, LINE_MAX

logger = logging.getLogger("django_dbqueue")

AUTH = b"auth "
# Bytes of a secret: what cannot be guessed, and what stands in a line of the protocol.
SECRET_MIN, SECRET_MAX = 16, LINE_MAX - len(AUTH) - len(CRLF)
SECRET = re.compile(rb"[!-~]{%d,%d}" % (SECRET_MIN, SECRET_MAX))


class BadCredentials(Told):
    """A file that cannot be used; the text names the option."""


@dataclass(frozen=True)
class CredentialFiles:
    """Where they are; None = not wanted."""

    certificate: str | None = None
    key: str | None = None
    client_ca: str | None = None
    secret: str | None = None


class Credentials:
    """What is in the files; ``BadCredentials`` where it cannot be used."""

    def __init__(self, files: CredentialFiles) -> None:
        self.files = files
        self._load()

    def _load(self) -> None:
        self.context, self._digest = tls_context(self.files), secret_digest(self.files.secret)

    def reload(self) -> None:
        """For connections to come; where a file cannot be used, all stays as it is."""
        try:
            self._load()
        except BadCredentials as error:
            logger.error("certificates and secret are not read again: %s", error)  # noqa: TRY400
        else:
            logger.info("certificates and secret are read again")

    @property
    def wants_secret(self) -> bool:
        return self._digest is not None

    def is_secret(self, given: bytes) -> bool:
        """In a time that tells nothing about the secret, nor how long it is."""
        return self._digest is not None and hmac.compare_digest(_digest(given), self._digest)


def tls_context(files: CredentialFiles) -> ssl.SSLContext | None:
    """For a server; None without a certificate."""
    if files.certificate is None or files.key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    for option, path in (("--tls-certificate", files.certificate), ("--tls-key", files.key)):
        _read(option, path)
    try:
        # Nobody is there to be asked for the password of a key.
        context.load_cert_chain(files.certificate, files.key, password=lambda: "")
    except (OSError, ValueError) as error:
        text = gettext_noop(
            "--tls-certificate %(certificate)s and --tls-key %(key)s must be a certificate and its "
            "key, in PEM, the key without a password: %(why)s"
        )
        names = {"certificate": files.certificate, "key": files.key}
        raise BadCredentials(text, why=reason(error), **names) from error
    if files.client_ca is not None:
        _want_certificates_of(context, files.client_ca)
    return context


def _want_certificates_of(context: ssl.SSLContext, path: str) -> None:
    _read("--tls-client-ca", path)
    try:
        context.load_verify_locations(path)
    except (OSError, ValueError) as error:
        text = gettext_noop("--tls-client-ca %(path)s must be certificates in PEM: %(why)s")
        raise BadCredentials(text, path=path, why=reason(error)) from error
    context.verify_mode = ssl.CERT_REQUIRED


def secret_digest(path: str | None) -> bytes | None:
    """Of the secret in a file, an end of line after it left out; None without a file."""
    if path is None:
        return None
    text = _read("--secret-file", path, is_private=True)
    secret = text.removesuffix(b"\n").removesuffix(b"\r")
    if not SECRET.fullmatch(secret):
        problem = gettext_noop(
            "--secret-file %(path)s must hold %(least)s to %(most)s visible ASCII characters "
            "without a space, in one line"
        )
        if not secret:
            problem = gettext_noop(
                "--secret-file %(path)s must hold %(least)s to %(most)s visible ASCII characters "
                "without a space, in one line, and is empty"
            )
        raise BadCredentials(problem, path=path, least=SECRET_MIN, most=SECRET_MAX)
    return _digest(secret)


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


def _read(option: str, path: str, *, is_private: bool = False) -> bytes:
    """Its first bytes: more than any secret has."""
    try:
        with Path(path).open("rb") as file:
            if is_private:
                _refuse_others(option, path, os.fstat(file.fileno()))
            return file.read(2 * LINE_MAX)
    except OSError as error:
        text = gettext_noop("%(option)s %(path)s cannot be read: %(why)s")
        raise BadCredentials(text, option=option, path=path, why=error.strerror) from error


def _refuse_others(option: str, path: str, found: os.stat_result) -> None:
    """A file of root's may be read by a group, which is how containers are given one."""
    allowed = stat.S_IRWXU | (stat.S_IRGRP if found.st_uid == 0 else 0)
    mode = stat.S_IMODE(found.st_mode)
    if mode & ~allowed & (stat.S_IRWXG | stat.S_IRWXO):
        text = gettext_noop(
            "%(option)s %(path)s can be read or written by others, its mode is %(mode)s: at most "
            "0600, or 0640 where it is root's (chmod)"
        )
        raise BadCredentials(text, option=option, path=path, mode=f"{mode:04o}")


def reason(error: Exception) -> str:
    """An error of TLS or of a file, in few words."""
    words = [getattr(error, name, None) for name in ("reason", "verify_message", "strerror")]
    found = dict.fromkeys(str(word) for word in words[:2] if word)
    return ": ".join(found) or str(words[2] or error)
