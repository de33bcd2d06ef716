"""HTTP connections with limits of time and number."""

import asyncio
import resource
from functools import partial
from typing import Any

from zoo.errors import needs_extra
from zoo.serve.app import Model

with needs_extra("serve"):
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[0]  # open files, at most; -1: any number
MAX_CONNECTIONS = min(512, FILES // 2) if FILES > 0 else 512
PART = 2**13  # bytes read at once: in chunks of one byte, 256 KiB would block for seconds
GRACE = 10  # seconds that running requests have left when the server is interrupted


def server(model: Model) -> uvicorn.Server:
    """Creates the HTTP server of a model."""
    protocol: Any = partial(Connection, timeout=model.timeout, idle={})
    config = uvicorn.Config(
        model.app(),
        http=protocol,
        ws="none",
        log_config=None,
        timeout_graceful_shutdown=GRACE,
    )
    return uvicorn.Server(config)


class Connection(H11Protocol, asyncio.BufferedProtocol):
    """Connection that closes if no head arrives, or a response is not read, in `timeout` seconds.

    Of too many connections, the one that has waited longest for a head closes.
    """

    def __init__(self, *args: Any, timeout: float, idle: dict["Connection", None], **more: Any):
        super().__init__(*args, **more)
        self._timeout, self._idle = timeout, idle
        self._timers: dict[str, Any] = {}
        self._part = bytearray(PART)

    def get_buffer(self, sizehint: int) -> bytearray:
        """Returns the memory for the next bytes, few enough to be fair to other connections."""
        return self._part

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._part[:nbytes]))

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_head()
        if len(self.connections) > MAX_CONNECTIONS:
            longest = next(iter(self._idle))
            longest._end_wait_for_head()  # it counts until the loop has closed it
            longest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_wait_for_head()
        self._end("response")
        super().connection_lost(exc)

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._end_wait_for_head()

    def on_response_complete(self) -> None:
        self._wait_for_head()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._begin("response")

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end("response")

    def _wait_for_head(self) -> None:
        self._idle[self] = None
        self._begin("head")

    def _end_wait_for_head(self) -> None:
        self._idle.pop(self, None)
        self._end("head")

    def _begin(self, wait: str) -> None:
        self._end(wait)
        self._timers[wait] = self.loop.call_later(self._timeout, self.transport.abort)

    def _end(self, wait: str) -> None:
        if timer := self._timers.pop(wait, None):
            timer.cancel()
