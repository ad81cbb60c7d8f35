"""What runbeanstalkd says to options and files that do not do."""

import re
import ssl
import subprocess
from argparse import ArgumentTypeError

import pytest
from django.core.management import load_command_class

from django_dbqueue.beanstalk.credentials import (
    SECRET_MAX,
    BadCredentials,
    CredentialFiles,
    Credentials,
    secret_digest,
)
from django_dbqueue.beanstalk.management.commands import _options
from django_dbqueue.beanstalk.management.commands._options import (
    BadOptions,
    access_of,
    address_of,
)
from tests.kit.processes import ROOT, running

PAGE = (ROOT / "docs" / "beanstalk.md").read_text()
ANYWHERE = "--listen", "0.0.0.0:0"


def parser():
    return load_command_class("django_dbqueue.beanstalk", "runbeanstalkd").create_parser("", "")


def parsed(*arguments):
    return vars(parser().parse_args(arguments))


@pytest.mark.parametrize(
    "listen", ["127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:1", "unix:/tmp/x"]
)
def test_this_host_alone_may_be_served_without_any_option(listen):
    options = parsed("--listen", listen)
    assert str(address_of(options)).replace("::1", "[::1]") == listen
    assert access_of(options) is None


def test_others_are_served_with_tls_and_what_tells_who_they_are(tls, with_secret, ca):
    client_ca = "--tls-client-ca", str(ca.path)
    for enough in ((*tls, *with_secret), (*tls, *client_ca), (*tls, *with_secret, *client_ca)):
        options = parsed(*ANYWHERE, *enough)
        assert str(address_of(options)) == "0.0.0.0:0"
        assert access_of(options) is not None
    assert str(address_of(parsed(*ANYWHERE, "--insecure"))) == "0.0.0.0:0"
    for too_little in ((), with_secret, tls):
        with pytest.raises(BadOptions, match="--insecure"):
            address_of(parsed(*ANYWHERE, *too_little))


def test_options_that_need_another_say_which():
    for arguments, words in (
        (("--tls-certificate", "x"), "--tls-certificate and --tls-key go together"),
        (("--tls-key", "x"), "--tls-certificate and --tls-key go together"),
        (("--tls-client-ca", "x"), "--tls-client-ca needs --tls-certificate"),
    ):
        with pytest.raises(BadOptions, match=words):
            access_of(parsed(*arguments))
    with pytest.raises(BadOptions, match="--socket-mode is for --listen unix:PATH"):
        address_of(parsed("--socket-mode", "600"))


@pytest.mark.parametrize(
    ("option", "text", "words"),
    [
        ("address", "unix:", "1 to 107 bytes"),
        ("address", "unix:/" + "x" * 107, "1 to 107 bytes"),
        ("address", "11300", "HOST:PORT"),
        ("address", "x:65536", "HOST:PORT"),
        ("mode", "0888", "octal number from 0 to 777"),
        ("mode", "1777", "octal number from 0 to 777"),
        ("mode", "rw", "octal number from 0 to 777"),
        ("patience", "0", "more than 0 seconds"),
        ("patience", "-1", "seconds from 0"),
        ("patience", "nan", "seconds from 0"),
    ],
)
def test_values_are_refused_with_their_limits(option, text, words):
    with pytest.raises(ArgumentTypeError, match=words):
        getattr(_options, option)(text)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o602, 0o620, 0o660, 0o644])
def test_a_secret_that_others_can_read_is_refused(secret_file, mode, monkeypatch):
    secret_file.chmod(mode)
    monkeypatch.setattr("os.fstat", lambda _: owned_by(secret_file, 1000))
    with pytest.raises(BadCredentials, match=rf"--secret-file .* its mode is {mode:04o}.* 0600"):
        secret_digest(str(secret_file))


def owned_by(path, owner):
    found = list(path.stat())
    found[4] = owner
    return type(path.stat())(found)


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o440])
def test_a_group_may_read_the_secret_that_is_roots(secret_file, mode, monkeypatch):
    secret_file.chmod(mode)
    found = owned_by(secret_file, 0)
    monkeypatch.setattr("os.fstat", lambda _: found)
    assert secret_digest(str(secret_file)) is not None


@pytest.mark.parametrize(
    "text",
    [
        *("", "\n", "x" * 15, "x" * (SECRET_MAX + 1), "x" * 5000, "two words of a secret"),
        *("x" * 20 + "\n\n", "first-line-of-two\nsecond-line-of-two", "grüße-und-küsse-von-mir"),
        *("tab\tis-no-visible-character", "nul\0nul\0nul\0nul\0nul"),
    ],
)
def test_a_secret_that_does_not_do_is_refused_with_the_limits(secret_file, text):
    secret_file.write_text(text)
    words = f"--secret-file {secret_file} must hold 16 to {SECRET_MAX} visible ASCII characters"
    with pytest.raises(BadCredentials, match=re.escape(words)) as caught:
        secret_digest(str(secret_file))
    assert "is empty" not in str(caught.value) or not text.strip()


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("secret", ["x" * 16, "y" * SECRET_MAX])
def test_a_secret_is_a_line_whose_end_is_left_out(secret_file, secret, end):
    secret_file.write_bytes((secret + end).encode())
    found = Credentials(CredentialFiles(secret=str(secret_file)))
    assert found.is_secret(secret.encode())
    for wrong in ("", secret[:-1], secret + "x", secret + end + "\n"):
        assert not found.is_secret(wrong.encode())


def test_files_of_tls_that_do_not_do_are_named_with_their_option(
    ca, server_certificate, client_certificate, tmp_path
):
    nothing, text = str(tmp_path / "nothing"), tmp_path / "text"
    text.write_text("no certificate")
    own, key, other = server_certificate.path, server_certificate.key, client_certificate.key
    for certificate, its_key, client_ca, words in (
        (nothing, key, None, "--tls-certificate .*nothing cannot be read: No such file"),
        (own, nothing, None, "--tls-key .*nothing cannot be read: No such file"),
        (own, tmp_path, None, "--tls-key .* cannot be read: Is a directory"),
        (own, other, None, "--tls-key .* a certificate and its key.*KEY_VALUES_MISMATCH"),
        (text, key, None, "--tls-certificate .* a certificate and its key"),
        (own, text, None, "--tls-key .* a certificate and its key"),
        (own, key, nothing, "--tls-client-ca .*nothing cannot be read: No such file"),
        (own, key, text, "--tls-client-ca .* must be certificates in PEM"),
    ):
        files = CredentialFiles(str(certificate), str(its_key), client_ca and str(client_ca))
        with pytest.raises(BadCredentials, match=words):
            Credentials(files)


def test_a_key_with_a_password_is_refused_and_nobody_is_asked(server_certificate, tmp_path):
    locked = tmp_path / "locked.key"
    subprocess.run(
        [
            *("openssl", "ec", "-aes256", "-passout", "pass:x"),
            *("-in", server_certificate.key, "-out", locked),
        ],
        check=True,
        capture_output=True,
    )
    with pytest.raises(BadCredentials, match="the key without a password"):
        Credentials(CredentialFiles(str(server_certificate.path), str(locked)))


def test_tls_begins_with_1_2_and_asks_for_certificates_where_it_shall(ca, server_certificate):
    own = str(server_certificate.path), str(server_certificate.key)
    context = Credentials(CredentialFiles(*own)).context
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_NONE
    assert Credentials(CredentialFiles(*own, str(ca.path))).context.verify_mode == ssl.CERT_REQUIRED


def test_a_bad_file_ends_the_command_before_it_listens(database_url, secret_file):
    secret_file.write_text("short")
    options = "--secret-file", str(secret_file)
    with running(database_url, "runbeanstalkd", "--listen", "127.0.0.1:0", *options) as process:
        assert process.end() == 1
        assert process.stderr.startswith("CommandError: --secret-file")
        assert "listening" not in process.stderr


def test_every_option_is_in_the_table_with_its_default():
    rows = dict(re.findall(r"^\| `(--[\w-]+)` \| (.*?) \|", PAGE, re.MULTILINE))
    usual = {"--help", "--version", "--verbosity", "--settings", "--pythonpath", "--traceback"}
    usual |= {"--no-color", "--force-color", "--skip-checks"}
    own = {
        option: action.default
        for action in parser()._actions
        for option in action.option_strings
        if option.startswith("--") and option not in usual
    }
    assert rows.keys() == own.keys()
    for option, default in own.items():
        if default not in (None, False):
            shown = f"{default:g}" if isinstance(default, float) else str(default)
            assert shown == rows[option].strip("`"), option
