"""TLS: certificates of the server and of clients, and what is no TLS."""

import os
import shutil
import signal
import socket
import ssl
from contextlib import ExitStack, suppress

import greenstalk
import pytest

from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.states import Status
from django_dbqueue.worker.children import resident
from tests.beanstalk.conftest import SECRET
from tests.kit.beanstalk_server import serving
from tests.kit.certificates import authority, client_context
from tests.kit.waiting import wait_until
from tests.kit.ways_to_tubes import TalkerOver, connected, over_tls, rest_of, talking_over

pytestmark = pytest.mark.usefixtures("db_rows")
AUTH = f"auth {SECRET}"


def test_commands_go_over_tls_once_the_secret_is_said(
    database_url, ca, tls, with_secret, server_certificate
):
    context = client_context(ca)
    with serving(database_url, *tls, *with_secret) as (process, port):
        with talking_over(over_tls(port, context)) as talker:
            assert talker.ask(AUTH) == ["OK"]
            key = talker.put("x" * 60_000)
            assert talker.reserve() == (key, "x" * 60_000)
            assert talker.ask(f"delete {key}") == ["DELETED"]
            talker.say("reserve-with-timeout 0\r\nuse t")
            assert [talker.hear(), talker.hear()] == [["TIMED_OUT"], ["USING", "t"]]
        with talking_over(over_tls(port, context)) as talker:
            talker.say(f"{AUTH}\r\nput 0 0 60 1\r\nx\r\nlist-tube-used")
            assert [talker.hear()[0] for _ in range(3)] == ["OK", "INSERTED", "USING"]
        with talking_over(over_tls(port, context)) as talker:
            for byte in f"{AUTH}\r\n".encode():
                talker.socket.sendall(bytes([byte]))
            assert talker.hear() == ["OK"]
        for said in (b"auth wrong\r\n", b"stats\r\n", b"put 0 0 60 9\r\n" + b"x" * 9000):
            with over_tls(port, context) as made:
                made.sendall(said)
                assert rest_of(made) == b"DENIED\r\n"
        process.send(signal.SIGTERM)
        assert process.end() == 0
        assert "Traceback" not in process.stderr
        assert "eof_received" not in process.stderr


def test_with_certificates_of_clients_no_secret_is_needed(
    database_url, ca, tls, client_certificate
):
    wants = "--tls-client-ca", str(ca.path)
    context = client_context(ca, client_certificate)
    with serving(database_url, *tls, *wants) as (_, port), over_tls(port, context) as made:
        made.sendall(b"put 0 0 60 1\r\nx\r\nquit\r\n")
        assert rest_of(made).startswith(b"INSERTED ")
    assert TubeJob.objects.count() == 1


def is_refused(port, context):
    """With TLS 1.3 a client takes the handshake for done before the server has judged it."""
    try:
        with over_tls(port, context) as made:
            made.sendall(b"put 0 0 60 1\r\nx\r\n")
            return made.recv(100) == b""
    except (ConnectionError, ssl.SSLError):
        return True


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_without_a_good_certificate_is_refused(
    database_url, ca, tls, client_certificate, tmp_path, newest
):
    stranger = authority(tmp_path, "other")
    bad = {
        "certificate verify failed: unable to get": stranger.sign("stranger"),
        "certificate verify failed: certificate has expired": ca.sign("expired", days=0),
        "peer did not return a certificate": None,
    }
    wants = "--tls-client-ca", str(ca.path)
    with serving(database_url, *tls, *wants) as (process, port):
        for why, certificate in bad.items():
            context = client_context(ca, certificate)
            context.maximum_version = newest
            assert is_refused(port, context)
            wait_until(lambda why=why: why in process.stderr.lower().replace("_", " "))
        with talking_over(over_tls(port, client_context(ca, client_certificate))) as talker:
            assert talker.ask("list-tube-used") == ["USING", "default"]
        assert "Traceback" not in process.stderr
    assert not TubeJob.objects.exists()


def test_a_client_refuses_a_server_that_is_not_its_own(database_url, ca, with_secret, tmp_path):
    expired = ca.sign("old", days=0)
    options = "--tls-certificate", str(expired.path), "--tls-key", str(expired.key)
    with serving(database_url, *options, *with_secret) as (process, port):
        for context in (client_context(ca), client_context(authority(tmp_path, "other"))):
            with pytest.raises(ssl.SSLCertVerificationError):
                over_tls(port, context)
        assert "Traceback" not in process.stderr


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_older_than_tls_1_2_is_refused(database_url, ca, tls):
    context = client_context(ca)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with serving(database_url, *tls) as (_, port):
        assert is_refused(port, context)
        with talking_over(over_tls(port, client_context(ca))) as talker:
            assert talker.ask("list-tube-used") == ["USING", "default"]


def test_who_speaks_no_tls_to_a_port_of_tls_is_closed(database_url, ca, tls, with_secret):
    with serving(database_url, *tls, *with_secret) as (process, port):
        for said in (f"{AUTH}\r\nput 0 0 60 1\r\nx\r\n".encode(), b"GET / HTTP/1.1\r\n\r\n"):
            with connected(port) as made:
                made.sendall(said)
                assert b"OK" not in rest_of(made)
        wait_until(lambda: "is denied: TLS: " in process.stderr)
        with talking_over(over_tls(port, client_context(ca))) as talker:
            assert talker.ask(AUTH) == ["OK"]
    assert not TubeJob.objects.exists()


def test_who_speaks_tls_to_a_port_without_it_is_closed(database_url, ca, with_secret):
    with serving(database_url, *with_secret) as (_, port), pytest.raises(ssl.SSLError):
        over_tls(port, client_context(ca))


def test_handshakes_that_are_never_done_leave_room_for_others(database_url, ca, tls):
    limits = "--max-unauthenticated", "3", "--authentication-timeout", "3600"
    with serving(database_url, *tls, *limits) as (_, port), ExitStack() as stack:
        own = stack.enter_context(talking_over(over_tls(port, client_context(ca))))
        silent = [stack.enter_context(connected(port)) for _ in range(20)]
        for one in silent[1::2]:
            one.sendall(b"\x16\x03\x01\x02\x00\x01")  # how a greeting begins
        assert [rest_of(one) for one in silent[:17]] == [b""] * 17
        with talking_over(over_tls(port, client_context(ca))) as talker:
            assert talker.ask("list-tube-used") == ["USING", "default"]
        assert own.ask("list-tube-used") == ["USING", "default"]


def test_a_handshake_that_takes_too_long_is_ended(database_url, ca, tls):
    patience = "--authentication-timeout", "0.5"
    with serving(database_url, *tls, *patience) as (process, port):
        with connected(port) as silent, connected(port) as begun:
            begun.sendall(b"\x16\x03\x01\x02\x00\x01")
            assert rest_of(silent) == rest_of(begun) == b""
        wait_until(lambda: "has not shown who it is" in process.stderr)


def test_the_end_of_a_connection_over_tls_gives_back_what_it_holds(database_url, ca, tls):
    """However it ends: with a farewell, without one, by a reset."""
    context = client_context(ca)
    with serving(database_url, *tls) as (process, port):
        with talking_over(over_tls(port, context)) as talker:
            key = talker.put(ttr=3600)
        for end in (say_farewell, just_leave, reset):
            made = over_tls(port, context)
            talker = TalkerOver(made)
            assert talker.reserve()[0] == key
            talker.say("watch never\r\nignore default\r\nreserve")
            assert [talker.hear()[0] for _ in range(2)] == ["WATCHING", "WATCHING"]
            end(made)
            wait_until(lambda: TubeJob.objects.get().status == Status.READY)
            talker.close()
        assert "eof_received" not in process.stderr
        assert "Traceback" not in process.stderr


def say_farewell(made):
    with suppress(OSError):  # where the server has ended it first
        made.unwrap()


def just_leave(made):
    made.shutdown(socket.SHUT_RDWR)


def reset(made):
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    os.close(made.detach())  # what reads from it would put off a close()


def test_certificates_and_secret_are_read_again_at_hup(
    database_url, ca, server_certificate, secret_file, tmp_path
):
    paths = [tmp_path / "server.pem", tmp_path / "server.key"]
    other = authority(tmp_path, "other")
    second = other.sign("second")
    install(server_certificate, paths)
    options = (
        *("--tls-certificate", str(paths[0]), "--tls-key", str(paths[1])),
        *("--secret-file", str(secret_file)),
    )
    with serving(database_url, *options) as (process, port), ExitStack() as stack:
        talker = stack.enter_context(talking_over(over_tls(port, client_context(ca))))
        assert talker.ask(AUTH) == ["OK"]
        paths[1].write_text("no key")
        process.send(signal.SIGHUP)
        wait_until(lambda: "are not read again: --tls-certificate" in process.stderr)
        over_tls(port, client_context(ca)).close()
        install(second, paths)
        secret_file.write_text("another-secret-of-the-same-file")
        process.send(signal.SIGHUP)
        wait_until(lambda: "are read again" in process.stderr)
        with pytest.raises(ssl.SSLCertVerificationError):
            over_tls(port, client_context(ca))
        for secret, answer in ((SECRET, "DENIED"), ("another-secret-of-the-same-file", "OK")):
            with talking_over(over_tls(port, client_context(other))) as newer:
                assert newer.ask(f"auth {secret}") == [answer]
        assert talker.ask("list-tube-used") == ["USING", "default"]


def install(certificate, paths):
    shutil.copy(certificate.path, paths[0])
    shutil.copy(certificate.key, paths[1])


def test_a_connection_over_tls_costs_little_memory(database_url, ca, tls):
    """asyncio's own would have 256 KiB each."""
    context = client_context(ca)
    with serving(database_url, *tls) as (process, port), ExitStack() as stack:

        def connect(count):
            for _ in range(count):
                talker = stack.enter_context(talking_over(over_tls(port, context)))
                assert talker.ask("list-tube-used") == ["USING", "default"]
            return resident(process.pid)

        before = connect(20)
        assert connect(100) - before < 100 * 128 * 1024


def test_greenstalk_goes_through_a_socket_with_tls(database_url, ca, tls, with_secret):
    with serving(database_url, *tls, *with_secret) as (_, port):
        made = over_tls(port, client_context(ca))
        made.sendall(f"{AUTH}\r\n".encode())
        assert made.recv(4) == b"OK\r\n"
        with greenstalk.Client(made, use="work", watch="work") as client:
            key = client.put("grüße")
            job = client.reserve()
            assert (job.id, job.body) == (key, "grüße")
            client.delete(job)
            with pytest.raises(greenstalk.TimedOutError):
                client.reserve(timeout=0)
