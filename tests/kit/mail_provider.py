"""A mail provider's HTTP interface on loopback, as Postmark's, and one within this process."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from anymail.backends.test import EmailBackend
from anymail.message import AnymailRecipientStatus

POSTMARK = "anymail.backends.postmark.EmailBackend"
TAKEN = {"ErrorCode": 0, "Message": "OK", "MessageID": "pm-1", "To": "anna@x.example"}


@contextmanager
def provider(status: int, answer: Any) -> Iterator[tuple[str, list[Any]]]:
    """Its address, and what it was sent; it answers everything in the same way."""
    received: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            received.append(json.loads(self.rfile.read(size)))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Provider(EmailBackend):  # type: ignore[misc]
    """anymail's own for tests; the status of each recipient stands in the address."""

    def post_to_esp(self, payload: Any, message: Any) -> Any:
        super().post_to_esp(payload, message)
        return {
            "recipient_status": {
                address: AnymailRecipientStatus("esp-1", _status(address))
                for address in payload.recipient_emails
            }
        }


def _status(address: str) -> str:
    word = address.partition("@")[0]
    return word if word in {"rejected", "invalid", "failed", "queued"} else "sent"
