"""Certificates that are made by the command ``openssl``, and contexts of clients with them."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
NAMES = "subjectAltName=IP:127.0.0.1,DNS:localhost"


@dataclass(frozen=True)
class Certificate:
    """In PEM; its key is in the same folder."""

    path: Path

    @property
    def key(self) -> Path:
        return self.path.with_suffix(".key")

    def sign(self, name: str, days: int = 2) -> "Certificate":
        """0 days = it has expired."""
        made = Certificate(self.path.with_name(f"{name}.pem"))
        request, names = made.path.with_suffix(".csr"), made.path.with_suffix(".ext")
        names.write_text(NAMES)
        _openssl("req", "-new", *KEY, "-keyout", made.key, "-out", request, "-subj", f"/CN={name}")
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.path, "-CAkey", self.key),
            *("-CAcreateserial", "-days", days, "-extfile", names, "-out", made.path),
        )
        return made


def authority(folder: Path, name: str) -> Certificate:
    made = Certificate(folder / f"{name}.pem")
    _openssl("req", "-x509", *KEY, "-keyout", made.key, "-out", made.path, "-subj", f"/CN={name}")
    return made


def client_context(ca: Certificate, own: Certificate | None = None) -> ssl.SSLContext:
    """That trusts an authority, and shows a certificate of its own."""
    context = ssl.create_default_context(cafile=str(ca.path))
    # Newer Pythons ask for extensions that the command leaves out of some certificates.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if own is not None:
        context.load_cert_chain(own.path, own.key)
    return context


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
