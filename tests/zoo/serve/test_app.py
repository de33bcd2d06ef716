"""The server, with a runtime that needs no TensorFlow, and clients that behave badly."""

import gzip
import json
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import requests
from support.leftovers import wait
from support.serving import COLOURS, Colours, b64, picture, serving

from zoo.serve import app, connections, rest
from zoo.serve.app import Model
from zoo.serve.exports import find

SIZE = {"signature_name": "sizes", "instances": ["a"]}
SIZES = json.dumps(SIZE).encode()
EXPORTS = Path(__file__).parents[2] / "fixtures" / "exports"
HEAD = b"POST /v1/models/colours:predict HTTP/1.1\r\nHost: a\r\nContent-Length: 999\r\n\r\n"


@pytest.fixture(scope="module")
def runtime() -> Colours:
    return Colours()


@contextmanager
def served(*runtimes: Colours, **limits) -> Iterator[tuple[Model, str]]:
    """A model, and its address on a server."""
    model = Model("colours", "10", [*runtimes], **limits)
    with serving(model) as url:
        yield model, f"{url}/v1/models/colours"


@pytest.fixture(scope="module")
def url(runtime):
    limits = {"max_bytes": 2**20, "max_waiting": 100, "timeout": 1}
    with served(runtime, batch_size=8, **limits) as (_, url):
        yield url


def post(url: str, *images, where: str = ":predict", signature: str = "image_bytes"):
    content = {"signature_name": signature, "instances": list(images)}
    return requests.post(f"{url}{where}", json=content, timeout=20)


def assert_answers(url: str) -> None:
    found = post(url, b64(picture("blau"))).json()["predictions"]
    assert found[0]["labels"][0] == "blau"


@pytest.mark.parametrize("where", [":predict", "/versions/10:predict"])
def test_predictions(url, where):
    rows = post(url, *[b64(picture(name)) for name in COLOURS], where=where).json()["predictions"]
    assert [row["labels"][0] for row in rows] == list(COLOURS)
    assert rows[1]["classes"][0] == 1
    assert rows[2]["scores"][0] == pytest.approx(220 / 256)


def test_status_and_metadata(url):
    for path in (url, f"{url}/versions/10"):
        (state,) = requests.get(path, timeout=20).json()["model_version_status"]
        assert (state["version"], state["state"]) == ("10", "AVAILABLE")
    described = requests.get(f"{url}/metadata", timeout=20).json()
    assert described["model_spec"]["version"] == "10"
    assert {"sizes", "image_bytes"} < described["metadata"]["signature_def"]["signature_def"].keys()


CUT = {"signature_name": "image_bytes", "instances": [b64(picture("rot")[:60])]}


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "message"),
    [
        ("POST", "/versions/9:predict", None, 404, "not found for request: Specific(colours, 9)"),
        ("POST", f"/versions/{'9' * 5000}:predict", None, 404, "Specific(colours, 999"),
        ("POST", "x:predict", None, 404, "not found for request: Latest(coloursx)"),
        ("GET", "x", None, 404, "Latest(coloursx)"),
        ("GET", "/nothing", None, 404, "Malformed request: GET /v1/models/colours/nothing"),
        ("POST", ":classify", None, 405, "Malformed request: POST /v1/models/colours:classify"),
        ("POST", "%2Fgr%C3%BCn%3Ab:predict", None, 404, "POST /v1/models/colours/grün:b:predict"),
        ("POST", ":predict", None, 400, "expected a JSON object"),
        ("POST", ":predict", CUT, 400, "expected a JPEG or PNG image"),
        ("POST", ":predict", SIZE | {"signature_name": "nope"}, 400, "no such signature_name. Rec"),
    ],
)
def test_refusals(url, method, path, content, status, message):
    response = requests.request(method, f"{url}{path}", json=content, timeout=20)
    assert response.status_code == status
    assert message in response.json()["error"]
    assert response.text.count("\n") == 1
    assert_answers(url)


def test_large_requests(url, runtime):
    def chunks():
        for _ in range(30):
            yield bytes(10**5)

    for body in (bytes(2**20 + 1), chunks()):
        response = requests.post(f"{url}:predict", data=body, timeout=20)
        assert response.status_code == 413
        assert "expected a body of at most 1048576 bytes" in response.json()["error"]
    runtime.batches.clear()
    assert post(url, *["abc"] * 20, signature="sizes").json()["predictions"] == [3] * 20
    assert runtime.batches == [8, 8, 4]
    assert post(url, *["a"] * 100, signature="sizes").ok
    many = post(url, *["a"] * 101, signature="sizes")
    assert (many.status_code, "at most 100 images at a time" in many.text) == (400, True)
    response = requests.post(f"{url}:predict", data=iter([SIZES[:9], SIZES[9:]]), timeout=20)
    assert response.json() == {"predictions": [1]}


def test_gzip(url):
    small, bomb = gzip.compress(SIZES), gzip.compress(bytes(2**20 + 1))
    for encoding, content, status in (
        ("gzip", small, 200),
        ("GZIP", small, 200),
        ("gzip", bomb, 413),
    ):
        headers = {"Content-Encoding": encoding}
        response = requests.post(f"{url}:predict", content, headers=headers, timeout=20)
        assert response.status_code == status


def test_bodies_in_memory_have_a_limit(runtime):
    """Of all requests that are being read: eight of the largest size."""
    with served(runtime, max_bytes=1000) as (model, url):
        with ExitStack() as opened:
            for _ in range(app.MAX_BODIES):
                opened.enter_context(connected(url)).sendall(HEAD + bytes(995))
            wait(lambda: model.held_bytes == app.MAX_BODIES * 995)
            refused = post(url, "a", signature="sizes")
            assert refused.status_code == 503
            assert refused.json() == {"error": "too many large requests at a time"}
        wait(lambda: not model.held_bytes)  # they are given up
        assert post(url, "a", signature="sizes").ok


def connected(url: str) -> socket.socket:
    host, _, port = url.split("/")[2].partition(":")
    return socket.create_connection((host, int(port)), 20)


def test_clients_that_stall_or_leave(url):
    for sent in (b"", HEAD[:20], HEAD, HEAD + b"{"):
        with connected(url) as client:
            client.sendall(sent)
    with ExitStack() as connections:
        stalled = [connections.enter_context(connected(url)) for _ in range(100)]
        for number, client in enumerate(stalled):
            client.sendall((b"", HEAD[:20], HEAD + b"{")[number % 3])
        assert_answers(url)
        answer = b""
        while b"no whole body within 1 s" not in answer:
            answer += stalled[2].recv(1000) or pytest.fail(answer.decode())
        assert answer.startswith(b"HTTP/1.1 408")
    assert_answers(url)


def closed_within(client: socket.socket, seconds: float) -> bool:
    """Whether the server ends a connection, after what it may send."""
    client.settimeout(seconds)
    try:
        while client.recv(2**16):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


WHOLE = HEAD.replace(b"999", str(len(SIZES)).encode()) + SIZES


@pytest.mark.parametrize("sent", [b"", HEAD[:20], WHOLE + HEAD[:20], WHOLE * 2 + b"P"])
def test_a_head_that_does_not_arrive_ends_a_connection(url, sent):
    """Also that of a second request. The limit of this server is a second."""
    with connected(url) as client:
        client.sendall(sent)
        assert closed_within(client, 10)


def test_a_body_that_nobody_reads_ends_a_connection(url):
    """For a path that there is not, byte by byte."""
    with connected(url) as client:
        client.sendall(HEAD.replace(b"models", b"nothing"))
        client.settimeout(0.05)
        received = b" "
        with suppress(ConnectionError):
            for _ in range(200):
                client.sendall(b" ")
                with suppress(TimeoutError):
                    received = client.recv(1000)
                if not received:
                    return
            pytest.fail("it is still open")


def test_a_response_that_is_not_read_ends_a_connection(runtime):
    class Wide(Colours):
        def signatures(self):
            return {"serving_default": (super().signatures()["sizes"][0], {"p": ("float32", [-1])})}

        def run(self, signature, inputs):
            return {"p": np.full((len(inputs["image_bytes"]), 10**6), 0.123, "float32")}

    with served(Wide(), timeout=0.5) as (_, url):
        content = json.dumps({"instances": ["a"] * 8}).encode()
        with connected(url) as client:
            client.sendall(HEAD.replace(b"999", str(len(content)).encode()) + content)
            time.sleep(2)
            assert closed_within(client, 10)
        assert requests.get(url, timeout=20).ok


def test_of_too_many_connections_the_one_that_waited_longest_ends(runtime, monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 8)
    with served(runtime) as (model, url), ExitStack() as opened:
        busy = opened.enter_context(connected(url))
        busy.sendall(HEAD + b"{")
        wait(lambda: model.held_bytes > 0)
        waiting = [opened.enter_context(connected(url)) for _ in range(30)]
        assert_answers(url)
        assert all(closed_within(client, 10) for client in waiting[:23])
        assert not closed_within(waiting[-1], 0.2)
        assert not closed_within(busy, 0.2)


def test_large_bodies_are_parsed_in_a_process_of_their_own(runtime, monkeypatch):
    """So other requests need not wait. It starts again if it was killed."""
    monkeypatch.setattr(rest, "FEW", 10)
    images = np.arange(5 * 6).reshape(5, 1, 2, 3)
    with served(runtime) as (model, url):
        for _ in range(2):
            response = post(url, *images.tolist(), signature="serving_default")
            np.testing.assert_allclose(response.json()["predictions"], images.mean((1, 2)))
        bad = post(url, *images.tolist(), [], signature="serving_default")
        assert (bad.status_code, "Received: a list of 0 at [5]" in bad.text) == (400, True)
        (process,) = model.parser._processes.values()
        os.kill(process.pid, signal.SIGKILL)
        again = [post(url, *images.tolist(), signature="serving_default") for _ in range(2)]
        assert again[-1].ok
        (process,) = model.parser._processes.values()
    assert not process.is_alive()


def test_numbers_that_are_not_finite():
    """A pixel of 1e20 is one of float32, but too large for the network."""
    images = np.zeros((2, 16, 16, 3)).tolist()
    images[1][0][0][0] = 1e20
    for name in ("onnx", "saved_model"):
        with served(*find(EXPORTS / name).load()) as (_, url):
            url += ":predict"
            for content in ({"instances": images}, {"inputs": images}):
                response = requests.post(url, json=content, timeout=60)
                assert response.status_code == 400
                message = "expected finite outputs of this model for these inputs. Received: nan in"
                assert message in response.json()["error"]
            assert requests.post(url, json={"instances": images[:1]}, timeout=60).ok


def test_chunks_of_a_byte_stop_no_other_client(url):
    """The parser of HTTP takes as long for each of them as for 8 KiB."""
    head = HEAD.replace(b"Content-Length: 999", b"Transfer-Encoding: chunked")
    with connected(url) as client:
        client.sendall(head)
        client.setblocking(False)
        longest = 0.0
        for _ in range(10):
            with suppress(BlockingIOError, ConnectionError):  # the server may end it
                while True:
                    client.send(b"1\r\n \r\n" * 1000)
            begin = time.process_time()
            assert requests.get(url, timeout=20).ok
            longest = max(longest, time.process_time() - begin)
    assert longest < 0.5


class Slow(Colours):
    """Waits with every batch until it may go on."""

    def __init__(self):
        super().__init__()
        self.may = threading.Event()

    def run(self, signature, inputs):
        self.may.wait(20)
        return super().run(signature, inputs)


def one_runs_and_two_wait(pool, model, url):
    asked = [pool.submit(post, url, "a", signature="sizes") for _ in range(3)]
    wait(lambda: len(model.batches) == 2)
    return asked


def test_an_interrupted_server_refuses_what_waits(monkeypatch, caplog):
    """And does not run it."""
    monkeypatch.setattr(connections, "GRACE", 0.2)
    runtime = Slow()

    def let_run(threads):
        """Lets the first one run once the others are canceled."""
        wait(lambda: threads._shutdown)
        with threads._shutdown_lock:  # until all of them are
            runtime.may.set()

    with ThreadPoolExecutor(4) as pool:
        with served(runtime, batch_size=1) as (model, url):
            asked = one_runs_and_two_wait(pool, model, url)
            given_up = model.batches.submit("sizes", {"image_bytes": np.array([b"a"])})
            half = connected(url)
            half.sendall(HEAD + b"{")
            pool.submit(let_run, model.batches.threads)
        assert [one.result().status_code for one in asked] == [503] * 3
        assert asked[0].result().json() == {"error": "the server is stopping"}
        assert half.recv(2**10).startswith(b"HTTP/1.1 503")
        half.close()
    assert "Traceback" not in caplog.text
    model.batches.threads.shutdown()
    assert runtime.batches == [1]
    assert not given_up.done()
    assert not multiprocessing.active_children()


def test_an_error_of_the_runtime():
    class Broken(Colours):
        def run(self, signature, inputs):
            raise MemoryError("too little")

    with served(Broken()) as (_, url):
        response = post(url, "a", signature="sizes")
        assert response.status_code == 500
        assert response.json() == {"error": "MemoryError: too little"}


def test_images_that_wait_refuse_further_ones():
    slow = Slow()
    with served(slow, batch_size=1, max_waiting=2) as (model, url), ThreadPoolExecutor(3) as pool:
        first = one_runs_and_two_wait(pool, model, url)
        refused = post(url, "a", signature="sizes")
        slow.may.set()
        assert [one.result().status_code for one in first] == [200] * 3
    assert refused.status_code == 503
    assert refused.json()["error"].endswith("Received: 1, and 2 already wait")


def test_batch_of_an_export_is_kept():
    class OneImage(Colours):
        """Of an export with `--batch_size 1`."""

        def signatures(self):
            _, outputs = super().signatures()["image_bytes"]
            return {"image_bytes": ({"image_bytes": ("string", [1])}, outputs)}

    runtime = OneImage()
    with served(runtime) as (_, url), ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: assert_answers(url), range(16)))
    assert set(runtime.batches) == {1}
