"""Certificates and a secret, as files."""

import shutil

import pytest

from tests.kit.certificates import authority

SECRET = "c0rrect-horse-battery-staple"


@pytest.fixture(scope="session")
def ca(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("certificates are made by openssl")
    return authority(tmp_path_factory.mktemp("certificates"), "ca")


@pytest.fixture(scope="session")
def server_certificate(ca):
    return ca.sign("server")


@pytest.fixture(scope="session")
def client_certificate(ca):
    return ca.sign("client")


@pytest.fixture
def tls(server_certificate):
    """Options of a server."""
    return (
        *("--tls-certificate", str(server_certificate.path)),
        *("--tls-key", str(server_certificate.key)),
    )


@pytest.fixture
def secret_file(tmp_path):
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def with_secret(secret_file):
    """Options of a server."""
    return "--secret-file", str(secret_file)
