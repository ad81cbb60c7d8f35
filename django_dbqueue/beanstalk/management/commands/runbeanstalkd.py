"""Speaks the protocol of beanstalkd over the table of tube jobs."""

import asyncio
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Coroutine
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import connections, router
from django.utils.translation import gettext as _

from ....dialects.sizes import largest_value
from ....management.commands._log import log_to_stderr
from ....management.commands.runworker import stop_without_migrations
from ....texts.wording import number, said
from ....worker.options import StopReason, beat_timing
from ....worker.session import forget_pools
from ....worker.startup import say
from ...access import Access
from ...credentials import BadCredentials
from ...keeper import Keeper, watch_statements
from ...listening import Address
from ...models import TubeJob
from ...server import Limits, Server
from ._options import BadOptions, access_of, add_options, address_of

WATCH_SECONDS = 1.0


class Command(BaseCommand):
    requires_system_checks = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = _("Serve tube jobs to clients of beanstalkd.")

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        log_to_stderr(options["verbosity"], as_json=options["json"])
        forget_pools()
        try:
            address, access = address_of(options), access_of(options)
        except (BadOptions, BadCredentials) as error:
            raise CommandError(said(error)) from error
        using = options["database"] or router.db_for_write(TubeJob)
        stop_without_migrations([using])
        refuse_what_cannot_be_put(using, options["max_job_size"])
        try:
            timing = beat_timing()
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        limits = Limits(options["max_connections"], options["max_per_address"])
        try:
            why = asyncio.run(
                serve(using, address, access, options["max_job_size"], limits, timing)
            )
        except OSError as error:
            text = _("cannot listen on %(address)s: %(why)s")
            raise CommandError(text % {"address": address, "why": error.strerror}) from error
        if why is None:
            raise CommandError(_("stopped by an error of its own, which is told above"))
        if why.code:
            sys.exit(why.code)


async def serve(
    using: str,
    address: Address,
    access: Access | None,
    job_size_max: int,
    limits: Limits,
    timing: Any,
) -> StopReason | None:
    """Until TERM, INT or a request in its row; USR1 = no job comes in from here on; HUP = read
    certificates and secret again, or else, without any, that its terminal was closed.

    None = the broker has ended by itself: a server that answers nobody is worse than none.
    """
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    server = Server(using, job_size_max, limits)
    reasons: list[StopReason] = []

    def end_by(reason: StopReason) -> None:
        reasons.append(reason)
        stop.set()

    def end_soon_by(reason: StopReason) -> None:
        loop.call_soon_threadsafe(end_by, reason)

    keeper = Keeper(server.broker.uuid, using, timing, end_soon_by, server.give_nothing)
    await server.start(address, access)
    keeper.start()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, end_by, StopReason(one.name))
    loop.add_signal_handler(signal.SIGUSR1, server.drain)
    if access is not None:
        loop.add_signal_handler(signal.SIGHUP, access.credentials.reload)
    elif signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
        loop.add_signal_handler(signal.SIGHUP, end_by, StopReason(signal.SIGHUP.name))
    say(_("listening on %(address)s") % {"address": address})
    silence = timing["worker_timeout"] / 2
    while not (stop.is_set() or server.is_over.is_set()):
        watch_statements(silence)
        try:
            await asyncio.wait_for(stop.wait(), WATCH_SECONDS)
        except TimeoutError:
            continue
    why = None if server.is_over.is_set() else reasons[0]
    address.leave()
    if access is not None:
        access.close()
    await watched(server.stop(), silence)
    await watched(asyncio.to_thread(keeper.stop, why.reason if why else "error"), silence)
    return why


async def watched(work: Coroutine[Any, Any, None], silence: float) -> None:
    """It may wait for a statement that a silent database never answers."""
    task = asyncio.create_task(work)
    while not task.done():
        watch_statements(silence)
        await asyncio.wait([task], timeout=WATCH_SECONDS)
    await task


def refuse_what_cannot_be_put(using: str, job_size_max: int) -> None:
    most = largest_value(connections[using])
    if most is not None and job_size_max > most:
        text = _(
            "a body of %(size)s bytes (--max-job-size) does not fit in a statement: the "
            "database's max_allowed_packet is enough for %(most)s"
        )
        raise CommandError(text % {"size": number(job_size_max), "most": number(most)})
