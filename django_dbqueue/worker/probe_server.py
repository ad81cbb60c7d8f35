"""The process behind ``--probe-port``: /live, /ready, and the pages that others bring along."""

import gc
import logging
import os
import signal
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer
from typing import Any

from ..guard import capture
from .options import Options
from .probe_page import PAGES, Answer, Page, ProbePage, hangs, troubles
from .session import STATEMENT_WATCHDOG
from .signalling import forget_signals

logger = logging.getLogger("django_dbqueue")

CLIENT_SECONDS_MAX = 5.0  # for which a client may say nothing
WATCH_SECONDS = 0.5  # between looks whether the supervisor is there
ANSWER_SECONDS_MAX = 5.0  # for which a database may leave a statement unanswered


def serve(listener: socket.socket, page: ProbePage, options: Options, parent: int) -> int:
    """Answer until the supervisor is gone; the exit code."""
    forget_signals()
    # Its supervisor ends it, or it notices when that is gone.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    gc.freeze()
    pages = {path: make(page, options) for path, make in PAGES.items()}
    timeout = options.worker_timeout
    pages["/live"] = lambda _: _said(hangs(page, timeout), "alive")
    pages["/ready"] = lambda _: _said(troubles(page, timeout), "ready")
    threading.Thread(target=ProbeServer(listener, pages).serve_forever, daemon=True).start()
    nap = threading.Event()
    while os.getppid() == parent:
        STATEMENT_WATCHDOG.end_waits(ANSWER_SECONDS_MAX)
        nap.wait(WATCH_SECONDS)
    return 0


def _said(problems: list[str], well: str) -> Answer:
    lines = "".join(f"{line}\n" for line in problems or [well])
    status = HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK
    return Answer(lines.encode(), status)


class ProbeServer(ThreadingHTTPServer):
    """On a socket that listens already; a thread for each request, so that none waits for one that
    takes long."""

    daemon_threads = True

    def __init__(self, listener: socket.socket, pages: dict[str, Page]) -> None:
        BaseServer.__init__(self, listener.getsockname(), Handler)
        self.socket = listener
        self.pages = pages

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("a client of the probe port has gone away")


class Handler(BaseHTTPRequestHandler):
    """One request."""

    timeout = CLIENT_SECONDS_MAX
    server_version, sys_version = "dbqueue", ""
    server: ProbeServer

    def do_GET(self) -> None:
        answer = self._answer()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_HEAD = do_GET

    def _answer(self) -> Answer:
        page = self.server.pages.get(self.path.partition("?")[0])
        if page is None:
            known = " ".join(sorted(self.server.pages))
            return Answer(f"There is: {known}\n".encode(), HTTPStatus.NOT_FOUND)
        with capture() as outcome:
            return page(self.headers.get("Accept", ""))
        logger.error("%s at the probe port went wrong", self.path, exc_info=outcome.error)
        return Answer(b"It went wrong: see the log.\n", HTTPStatus.INTERNAL_SERVER_ERROR)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        logger.debug("probe port: %s %s", self.path, code)

    def log_error(self, _: str, *args: object) -> None:
        logger.debug("probe port: a bad request: %s", args)
