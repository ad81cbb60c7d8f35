"""Speaks the protocol of beanstalkd over the table of tube jobs."""

import asyncio
import ipaddress
import signal
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import connections, router

from ....dialects.sizes import largest_value
from ....management.commands._log import log_to_stderr
from ....management.commands._types import alias, positive
from ....management.commands.runworker import stop_without_migrations
from ....worker.options import REQUESTED, beat_timing
from ....worker.session import forget_pools
from ....worker.startup import say
from ...keeper import Keeper, watch_statements
from ...models import TubeJob
from ...protocol import JOB_SIZE, JOB_SIZE_MAX
from ...server import Limits, Server

PORT = 11300
WATCH_SECONDS = 1.0


class Command(BaseCommand):
    help = "Serve tube jobs to clients of beanstalkd."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--listen", type=address, default=f"127.0.0.1:{PORT}", metavar="HOST:PORT")
        add("--max-job-size", type=job_size, default=JOB_SIZE, metavar="BYTES")
        add("--max-connections", type=positive, default=Limits.connections)
        add("--max-per-address", type=positive, default=Limits.per_address)
        add("--database", type=alias, help="the alias; default: where tube jobs are written")
        add("--insecure", action="store_true", help="listen beyond this host, to whom it may be")
        add("--json", action="store_true", help="log one JSON object a line")

    def handle(self, *args: Any, **options: Any) -> None:
        log_to_stderr(options["verbosity"], as_json=options["json"])
        forget_pools()
        host, port = options["listen"]
        if not options["insecure"] and not is_loopback(host):
            raise CommandError(
                f"{host} can be reached from other hosts, and the protocol knows no passwords: "
                "listen on 127.0.0.1, or say --insecure where only those you trust get through"
            )
        using = options["database"] or router.db_for_write(TubeJob)
        stop_without_migrations([using])
        refuse_what_cannot_be_put(using, options["max_job_size"])
        try:
            timing = beat_timing()
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        limits = Limits(options["max_connections"], options["max_per_address"])
        try:
            is_well = asyncio.run(serve(using, host, port, options["max_job_size"], limits, timing))
        except OSError as error:
            raise CommandError(f"cannot listen on {host}:{port}: {error.strerror}") from error
        if not is_well:
            raise CommandError("stopped by an error of its own, which is told above")


async def serve(
    using: str, host: str, port: int, job_size_max: int, limits: Limits, timing: Any
) -> bool:
    """Until TERM, INT or a request in its row; USR1 = no job comes in from here on.

    False = the broker has ended by itself: a server that answers nobody is worse than none.
    """
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    server = Server(using, job_size_max, limits)
    keeper = Keeper(server.broker.uuid, using, timing, lambda: loop.call_soon_threadsafe(stop.set))
    port = await server.start(host, port)
    keeper.start()
    signals: list[str] = []

    def end_by(number: signal.Signals) -> None:
        signals.append(number.name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end_by, number)
    loop.add_signal_handler(signal.SIGUSR1, server.drain)
    say(f"listening on {host}:{port}")
    while not (stop.is_set() or server.is_over.is_set()):
        watch_statements(timing["worker_timeout"] / 2)
        try:
            await asyncio.wait_for(stop.wait(), WATCH_SECONDS)
        except TimeoutError:
            continue
    is_well = not server.is_over.is_set()
    await server.stop()
    reason = signals[0] if signals else REQUESTED.reason
    keeper.stop(reason if is_well else "error")
    return is_well


def refuse_what_cannot_be_put(using: str, job_size_max: int) -> None:
    most = largest_value(connections[using])
    if most is not None and job_size_max > most:
        raise CommandError(
            f"a body of {job_size_max:,} bytes (--max-job-size) does not fit in a statement: the "
            f"database's max_allowed_packet is enough for {most:,}"
        )


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ArgumentTypeError(f"must be HOST:PORT, as 127.0.0.1:{PORT}, not {text!r}")
    return host.strip("[]"), int(port)


def job_size(text: str) -> int:
    if not text.isdecimal() or int(text) > JOB_SIZE_MAX:
        raise ArgumentTypeError(f"must be between 0 and {JOB_SIZE_MAX} bytes, not {text!r}")
    return int(text)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
