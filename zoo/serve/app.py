"""HTTP application with the paths of TensorFlow Serving's REST interface."""

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from zoo.errors import needs_extra
from zoo.export.base import Runtime
from zoo.serve import rest
from zoo.serve.batches import Arrays, Batches

with needs_extra("serve"):
    import orjson
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from starlette.routing import Route

MAX_BODIES = 8  # bodies of the largest size that fit into memory together


@dataclass
class Model:
    """A model, its runtimes and the limits of requests."""

    name: str  # in the paths
    version: str  # a number
    runtimes: Sequence[Runtime]  # each runs a batch at a time
    batch_size: int = 32  # images, at most
    max_bytes: int = 32 * 2**20  # of the body of a request
    max_waiting: int = 1024  # images
    timeout: float = 60  # seconds until a head or a body has arrived, or a response is read

    def __post_init__(self) -> None:
        self.signatures = self.runtimes[0].signatures()
        sizes = [s[0] for inputs, _ in self.signatures.values() for _, s in inputs.values()]
        fixed = max(sizes)  # images of every call of the export; -1 for any number
        self.batches = Batches(self.runtimes, fixed if fixed > 0 else self.batch_size)
        self.held_bytes = 0  # of bodies in memory
        self.parser = _parser()

    def app(self) -> Starlette:
        """Creates the ASGI application."""
        handlers: Any = {
            rest.Refused: lambda _, error: _json({"error": str(error)}, error.status),
            ClientDisconnect: lambda *_: Response(status_code=400),  # nobody reads it
            HTTPException: _malformed,
            Exception: lambda _, error: _json({"error": type(error).__name__}, 500),
        }
        routes = [
            route
            for model in ("/v1/models/{name}", "/v1/models/{name}/versions/{version}")
            for route in (
                Route(f"{model}:predict", self._predict, methods=["POST"]),
                Route(f"{model}/metadata", self._metadata),
                Route(model, self._status),
            )
        ]
        return Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(self.close)

    def close(self) -> None:
        """Waits for running batches; refuses waiting requests."""
        self.parser.shutdown(cancel_futures=True)
        self.batches.close()

    async def _predict(self, request: Request) -> Response:
        try:
            return await self._predictions(request)
        except asyncio.CancelledError:
            raise rest.Refused("the server is stopping", 503) from None

    async def _predictions(self, request: Request) -> Response:
        async with self._body(request) as body:  # first: a client still sending would miss an error
            self._check(request)
            parsed = await self._parsed(body, request.headers.get("content-encoding", ""))
        try:
            outputs = await self._outputs(parsed)
        except rest.Refused:
            raise
        except Exception as error:  # runtimes raise many kinds
            raise rest.refusal(error, parsed) from error
        content = await run_in_threadpool(rest.write_response, outputs, parsed.by_row)
        return Response(content, media_type="application/json")

    async def _parsed(self, body: rest.Body, encoding: str) -> rest.Request:
        """Parses a body; large ones in another process, so that threads need not wait."""
        encoding = encoding.strip().lower()
        content = await run_in_threadpool(rest.decompress, body, encoding, self.max_bytes)
        limits = (self.signatures, self.max_waiting)
        if not await run_in_threadpool(rest.is_large, content, *limits):
            return await run_in_threadpool(rest.read_request, content, *limits)
        parser = self.parser
        try:
            parsing = parser.submit(rest.read_request, content, *limits)
            return await asyncio.wrap_future(parsing)
        except BrokenProcessPool:  # out of memory, most likely
            if parser is self.parser:
                self.parser = _parser()
            raise rest.Refused("too little memory to read the request", 503) from None

    async def _outputs(self, request: rest.Request) -> Arrays:
        """Runs the images of a request, in several batches if there are many."""
        count = len(next(iter(request.inputs.values())))
        waiting = len(self.batches)
        if waiting + count > self.max_waiting:
            expected = f"expected at most {self.max_waiting} images at a time"
            status = 503 if count <= self.max_waiting else 400
            raise rest.Refused(f"{expected}. Received: {count}, and {waiting} already wait", status)
        size = self.batches.size
        parts = [
            self.batches.submit(
                request.signature, {name: a[i : i + size] for name, a in request.inputs.items()}
            )
            for i in range(0, count, size)
        ]
        results = await asyncio.gather(*map(asyncio.wrap_future, parts))
        if len(results) == 1:
            return results[0]
        return {name: np.concatenate([result[name] for result in results]) for name in results[0]}

    async def _metadata(self, request: Request) -> Response:
        self._check(request)
        return _json(rest.metadata(self.name, self.version, self.signatures))

    async def _status(self, request: Request) -> Response:
        self._check(request)
        ok = {"error_code": "OK", "error_message": ""}
        state = {"version": self.version, "state": "AVAILABLE", "status": ok}
        return _json({"model_version_status": [state]})

    def _check(self, request: Request) -> None:
        """Refuses requests for other models or versions."""
        name, version = (request.path_params.get(key) for key in ("name", "version"))
        if name != self.name or version not in (None, self.version):
            which = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            served = f"expected {self.name}, version {self.version}"
            raise rest.Refused(f"Servable not found for request: {which}; {served}", 404)

    @asynccontextmanager
    async def _body(self, request: Request) -> AsyncIterator[bytearray]:
        """Reads a whole body, but keeps no more bytes than the limits allow."""
        body, size, full = bytearray(), 0, False
        try:
            try:
                async with asyncio.timeout(self.timeout):
                    async for part in request.stream():
                        size += len(part)
                        full = full or self.held_bytes + len(part) > MAX_BODIES * self.max_bytes
                        if full or size > self.max_bytes:
                            self.held_bytes -= len(body)
                            body.clear()
                        else:
                            self.held_bytes += len(part)
                            body += part
            except TimeoutError:
                raise rest.Refused(f"no whole body within {self.timeout:g} s", 408) from None
            if size > self.max_bytes:
                limit = f"expected a body of at most {self.max_bytes} bytes"
                raise rest.Refused(f"{limit}. Received: {size}", 413)
            if full:
                raise rest.Refused("too many large requests at a time", 503)
            yield body
        finally:
            self.held_bytes -= len(body)


def _parser() -> ProcessPoolExecutor:
    """Creates a pool of one process for large bodies; the process starts with the first one."""
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _end_with_server)


def _end_with_server() -> None:
    """Ignores Ctrl-C in this process, and ends it with the server, even if that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server: Any = multiprocessing.parent_process()
    threading.Thread(target=lambda: (server.join(), os._exit(1)), daemon=True).start()


def _json(content: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(content) + b"\n", status, media_type="application/json")


def _malformed(request: Request, error: Any) -> Response:
    reason = f"Malformed request: {request.method} {request.url.path} ({error.detail})"
    return _json({"error": reason}, error.status_code)
