"""A worker with each process of an ASGI server that speaks the lifespan protocol."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

from asgiref.sync import sync_to_async

from ..conf import conf
from .command_line import by_import_path
from .process import start_worker, stop_worker

Message: TypeAlias = Any
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Any, Receive, Send], Coroutine[Any, Any, None]]


def with_worker(application: Application) -> Application:
    """The application with a worker that starts and stops with the server (uvicorn, hypercorn).

    Everything is passed to the application; where it knows no lifespan, as Django's, that is
    answered for it. Without ``RUN_WITH_SERVER`` the application itself.
    """
    # Read at once: an error within the lifespan counts, for a server, as one that is not supported.
    if not conf["RUN_WITH_SERVER"]:
        return application

    async def wrapped(scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await Lifespan(receive, send).run(application, scope)
        else:
            await application(scope, receive, send)

    return wrapped


class Lifespan:
    """Passes its messages on, and starts and stops the worker as they go by."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._is_known = False  # to the application, which has asked for a message

    async def run(self, application: Application, scope: Any) -> None:
        try:
            await application(scope, self.receive, self._send)
        except Exception:  # why: whatever says that it knows no lifespan
            if self._is_known:
                raise
        if not self._is_known:
            await self._answer()

    async def _answer(self) -> None:
        message = {"type": ""}
        while message["type"] != "lifespan.shutdown":
            message = await self.receive()
            await self._send({"type": f"{message['type']}.complete"})

    async def receive(self) -> Message:
        self._is_known = True
        message = await self._receive()
        if message["type"] == "lifespan.startup":
            start_worker(by_import_path())
        elif message["type"] == "lifespan.shutdown":
            # It may take as long as a job does.
            await sync_to_async(stop_worker, thread_sensitive=False)()
        return message
