"""A loopback server of gs:// buckets for TensorFlow's client, with faults on demand.

It is the HTTPS proxy of a process: it answers as Google's two hosts and refuses all others.
"""

import json
import re
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import trustme

HOSTS = ("www.googleapis.com", "storage.googleapis.com")
API = r"/storage/v1/b/(?P<bucket>[^/?]+)"
OBJECT = rf"{API}/o/(?P<name>[^/?]+)"
OPERATIONS = {  # HTTP method and path, in the order in which they are tried
    "start": rf"POST /upload{API}/o\?uploadType=resumable",
    "mark": rf"POST /upload{API}/o\?uploadType=media",  # an empty object for a folder
    "upload": rf"PUT /upload{API}/o\?upload_id=(?P<upload>\d+)",
    "copy": rf"POST {OBJECT}/rewriteTo/b/(?P<to_bucket>[^/]+)/o/(?P<to_name>[^/?]+)",
    "delete": rf"DELETE {OBJECT}",
    "list": rf"GET {API}/o\?",
    "stat": rf"GET {OBJECT}",
    "bucket": rf"GET {API}",
    "read": r"GET /(?P<bucket>[^/]+)/(?P<name>.+)",
}


class Object(NamedTuple):
    """Content of an object, and its metadata."""

    data: bytes
    resource: dict[str, str]


@dataclass
class Fault:
    """A fault in requests of "OPERATION BUCKET/NAME", after `skip` of them.

    Kinds: a number: the response has this status; break: the connection ends in the middle of a
    request or response body; slow: the body pauses there for `seconds`; damage: the last bit of a
    read is wrong; stale: a listing shows the objects at the time the fault was created. `then` is
    called in the middle of the body, or after a status.
    """

    kind: str
    pattern: str
    times: int = 1
    skip: int = 0
    seconds: float = 0.0
    then: Callable[[], Any] = bool
    met: int = 0
    before: Mapping[str, Object] = field(default_factory=dict)


@dataclass
class Request:
    """A request, and how it ended."""

    operation: str
    place: str  # BUCKET/NAME; for a listing, BUCKET/PREFIX
    received: int = 0  # bytes of the body
    sent: int = 0
    status: int = 0  # 0: no response, or a broken connection


class BucketServer(ThreadingHTTPServer):
    """Objects by BUCKET/NAME, the requests so far, and the faults of the next ones."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, folder: str, round_trip: float = 0.0, page: int = 1000) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.round_trip, self.page = round_trip, page  # seconds; names in a page of a listing
        self.objects: dict[str, Object] = {}
        self.uploads: dict[str, tuple[str, bytearray]] = {}  # key and received bytes
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.refused: list[str] = []  # other hosts
        self.numbers, self.lock = count(1), threading.RLock()
        authority = trustme.CA()
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*HOSTS).configure_cert(self.tls)
        self.certificate = f"{folder}/ca.pem"
        authority.cert_pem.write_to_path(self.certificate)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that direct TensorFlow's client in any process to this server."""
        proxy = f"http://127.0.0.1:{self.server_address[1]}"
        certificate = {"CURL_CA_BUNDLE": self.certificate, "NO_GCE_CHECK": "true"}
        token = {"GOOGLE_AUTH_TOKEN_FOR_TESTING": "nobody"}
        return {"HTTPS_PROXY": proxy, "HTTP_PROXY": proxy, **certificate, **token}

    def fail(self, kind: Any, pattern: str, **options: Any) -> Fault:
        self.faults.append(Fault(str(kind), pattern, before=dict(self.objects), **options))
        return self.faults[-1]

    def fault_of(self, request: Request) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if re.search(fault.pattern, f"{request.operation} {request.place}"):
                    fault.met += 1
                    if fault.skip < fault.met <= fault.skip + fault.times:
                        return fault
        return None

    def write(self, key: str, data: bytes) -> None:
        with self.lock:
            numbers = {"size": str(len(data)), "generation": str(next(self.numbers))}
            names = {"name": key.partition("/")[2], "updated": datetime.now(UTC).isoformat()}
            self.objects[key] = Object(data, names | numbers)

    def fill(self, folder: Path, place: str = "bucket") -> None:
        """Writes the files of a folder to BUCKET or BUCKET/PREFIX."""
        for path in filter(Path.is_file, folder.rglob("*")):
            self.write(f"{place}/{path.relative_to(folder)}", path.read_bytes())

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints nothing: clients are killed, or have to retry, on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True
    server: BucketServer

    def log_message(self, format: str, *args: Any) -> None:
        """Prints nothing: `BucketServer.requests` is the log."""

    def do_CONNECT(self) -> None:
        if self.path.rpartition(":")[0] not in HOSTS:
            self.server.refused.append(self.path)
            return self.send_error(403)
        time.sleep(2 * self.server.round_trip)  # TCP and TLS: each request has a connection
        self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        self.connection = self.server.tls.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = (self.connection.makefile(mode) for mode in ("rb", "wb"))
        self.close_connection = False

    def do_GET(self) -> None:
        tried = (
            (re.match(OPERATIONS[name], f"{self.command} {self.path}"), name) for name in OPERATIONS
        )
        match, operation = next(filter(itemgetter(0), tried), (None, ""))
        if match is None or not isinstance(self.connection, ssl.SSLSocket):
            return self.do_CONNECT()  # refuses the request
        time.sleep(self.server.round_trip)
        self.query, self.data = dict(parse_qsl(urlsplit(self.path).query)), bytearray()
        self.groups = {key: unquote(value) for key, value in match.groupdict().items()}
        parameters = self.groups | self.query
        self.key = f"{parameters['bucket']}/{parameters.get('name', parameters.get('prefix', ''))}"
        if operation == "upload":
            self.key, self.data = self.server.uploads[self.groups["upload"]]
        self.log = Request(operation, self.key)
        self.server.requests.append(self.log)
        self.fault = self.server.fault_of(self.log)
        try:
            if self.fault is None or not self.fault.kind.isdecimal():
                return getattr(self, f"_{operation}")()
            self._body()
            self._send(int(self.fault.kind), b"as the test wants it")
            self.fault.then()
        except OSError:  # the client disconnected, or a fault disconnects it
            self.close_connection, self.log.status = True, 0
            self.wfile = BytesIO()

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()
        self.connection.close()

    do_POST = do_PUT = do_DELETE = do_GET

    def handle_expect_100(self) -> bool:
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def _middle(self) -> None:
        """Triggers the fault of this request, after half of the body."""
        if self.fault and not self.fault.kind.isdecimal():
            fault, self.fault = self.fault, None
            time.sleep(fault.seconds)
            fault.then()
            if fault.kind == "break":
                raise ConnectionError

    def _body(self) -> bytes:
        """Reads the body into `data`, which keeps the received bytes if the connection breaks."""
        body, length = self.data, int(self.headers.get("Content-Length", 0))
        chunked, begin = self.headers.get("Transfer-Encoding") == "chunked", len(body)
        while self.log.received < length:
            size = int(self.rfile.readline(), 16) if chunked else length
            body += self.rfile.read(size)
            self.log.received = len(body) - begin
            if chunked:
                self.rfile.readline()
            if self.log.received >= length // 2:
                self._middle()
        while chunked and self.rfile.readline().strip():  # the last chunk, which is empty
            pass
        return bytes(body)

    def _send(self, status: int, content: Any = b"", **headers: Any) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.log.status = status
        self.send_response(status)
        for name, value in {**headers, "Content-Length": len(body)}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        half = len(body) // 2 if self.fault and self.command == "GET" else len(body)
        self.wfile.write(body[:half])
        self.log.sent = half
        if half < len(body):
            self.wfile.flush()
            self._middle()
            self.log.sent = len(body)
            self.wfile.write(body[half:])

    def _stat(self) -> None:
        stored = self.server.objects.get(self.key)
        self._send(200 if stored else 404, stored.resource if stored else b"no such object")

    def _mark(self, data: bytes | None = None) -> None:
        data = self._body() if data is None else data
        with self.server.lock:
            stored = self.server.objects.get(self.key)
            generation = stored.resource["generation"] if stored else "0"
            if self.query.get("ifGenerationMatch", generation) != generation:
                return self._send(412, b"another generation")
            self.server.write(self.key, data)
        self._stat()

    def _start(self) -> None:
        self._body()
        upload = str(next(self.server.numbers))
        self.server.uploads[upload] = self.key, bytearray()
        place = self.path.partition("?")[0]
        self._send(200, Location=f"https://{HOSTS[0]}{place}?upload_id={upload}")

    def _upload(self) -> None:
        self._body()
        if len(self.data) == int(self.headers["Content-Range"].rpartition("/")[2]):
            return self._mark(bytes(self.data))
        self._send(308, **({"Range": f"bytes=0-{len(self.data) - 1}"} if self.data else {}))

    def _list(self) -> None:
        delimiter, fault = self.query.get("delimiter", "\0"), self.fault
        objects = fault.before if fault and fault.kind == "stale" else dict(self.server.objects)
        entries: dict[str, Object | None] = {}  # None: a folder
        for key in sorted(key for key in objects if key.startswith(self.key)):
            head, more, _ = key.removeprefix(self.key).partition(delimiter)
            entries[self.query.get("prefix", "") + head + more] = None if more else objects[key]
        size = min(int(self.query.get("maxResults", self.server.page)), self.server.page)
        names = [name for name in entries if name > self.query.get("pageToken", "")]
        items = [stored.resource for name in names[:size] if (stored := entries[name])]
        folders = [name for name in names[:size] if not entries[name]]
        token = {"nextPageToken": names[size - 1]} if names[size:] else {}
        self._send(200, {"items": items, "prefixes": folders, **token})

    def _bucket(self) -> None:
        self._send(200, {"name": self.groups["bucket"], "location": "LOOPBACK"})

    def _read(self) -> None:
        stored = self.server.objects.get(self.key)
        first, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")
        data = stored.data[int(first) : int(last) + 1 if last else None] if stored else b""
        if data and self.fault and self.fault.kind == "damage":
            data = data[:-1] + bytes([data[-1] ^ 1])
        self._send(206 if data else 416 if stored else 404, data)

    def _delete(self) -> None:
        self._send(204 if self.server.objects.pop(self.key, None) else 404)

    def _copy(self) -> None:
        self._body()
        if stored := self.server.objects.get(self.key):
            self.server.write(f"{self.groups['to_bucket']}/{self.groups['to_name']}", stored.data)
        self._send(200 if stored else 404, {"done": True})


@contextmanager
def serving(**options: Any) -> Iterator[BucketServer]:
    """Runs a server in a thread for the `with` block."""
    with tempfile.TemporaryDirectory() as folder, BucketServer(folder, **options) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
