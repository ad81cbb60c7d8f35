"""The project as a browser meets it: a real server, a real address, the strictest policy."""

from threading import Thread

from django.conf import settings
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.handlers.wsgi import WSGIHandler
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.test import override_settings

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "frame-src 'self'; base-uri 'none'"
)


class StrictPolicy:
    """Sends the policy with each page that has none of its own."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response


STRICT = f"{StrictPolicy.__module__}.{StrictPolicy.__qualname__}"


class Quiet(WSGIRequestHandler):
    def log_message(self, *_args):
        pass


class Server:
    """Serves the test database on a free port, each request in a thread of its own."""

    def __init__(self, *middleware):
        with override_settings(MIDDLEWARE=[*middleware, *settings.MIDDLEWARE]):
            handler = StaticFilesHandler(WSGIHandler())
        self.http = ThreadedWSGIServer(
            ("127.0.0.1", 0), Quiet, allow_reuse_address=False, connections_override={}
        )
        self.http.set_app(handler)
        self.thread = Thread(target=self.http.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()
        self.address = f"http://127.0.0.1:{self.http.server_port}"

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()
