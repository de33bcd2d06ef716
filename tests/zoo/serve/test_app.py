"""The server, with a runtime that needs no TensorFlow, and clients that behave badly."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import pytest
import requests
from support.serving import COLOURS, Colours, b64, picture, serving

from zoo.serve.app import Model


@pytest.fixture(scope="module")
def runtime() -> Colours:
    return Colours()


@pytest.fixture(scope="module")
def url(runtime):
    limits = {"max_bytes": 2**20, "max_waiting": 100, "timeout": 1}
    with serving(Model("colours", "10", [runtime], batch_size=8, **limits)) as url:
        yield f"{url}/v1/models/colours"


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


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("POST", "/versions/9:predict", 404, "not found for request: Specific(colours, 9)"),
        ("POST", f"/versions/{'9' * 5000}:predict", 404, "Specific(colours, 999"),
        ("POST", "x:predict", 404, "not found for request: Latest(coloursx)"),
        ("GET", "x", 404, "Latest(coloursx)"),
        ("GET", "/nothing", 404, "Malformed request: GET /v1/models/colours/nothing"),
        ("POST", ":classify", 405, "Malformed request: POST /v1/models/colours:classify"),
        ("POST", ":predict", 400, "expected JSON"),
    ],
)
def test_refusals(url, method, path, status, message):
    response = requests.request(method, f"{url}{path}", timeout=20)
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
    content = json.dumps({"signature_name": "sizes", "instances": ["ab"]}).encode()
    response = requests.post(f"{url}:predict", data=iter([content[:9], content[9:]]), timeout=20)
    assert response.json() == {"predictions": [2]}


def connected(url: str) -> socket.socket:
    host, _, port = url.split("/")[2].partition(":")
    return socket.create_connection((host, int(port)), 20)


HEAD = b"POST /v1/models/colours:predict HTTP/1.1\r\nHost: a\r\nContent-Length: 999\r\n\r\n"


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


def test_an_error_of_the_runtime(runtime):
    class Broken(Colours):
        def run(self, signature, inputs):
            raise MemoryError("too little")

    with serving(Model("m", "1", [Broken()])) as url:
        response = post(f"{url}/v1/models/m", "a", signature="sizes")
        assert response.status_code == 500
        assert response.json() == {"error": "MemoryError: too little"}


def test_images_that_wait_refuse_further_ones():
    waits = threading.Event()

    class Slow(Colours):
        def run(self, signature, inputs):
            waits.wait(20)
            return super().run(signature, inputs)

    model = Model("m", "1", [Slow()], batch_size=1, max_waiting=2)
    with serving(model) as url, ThreadPoolExecutor(3) as pool:
        ask = partial(post, f"{url}/v1/models/m", "a", signature="sizes")
        first = [pool.submit(ask) for _ in range(3)]  # one runs, two wait
        while len(model._batches) < 2:
            time.sleep(0.01)
        refused = ask()
        waits.set()
        assert [one.result().status_code for one in first] == [200] * 3
    assert refused.status_code == 503
    assert refused.json()["error"].endswith("Received: 1, and 2 already wait")


class OneImage(Colours):
    """Colours, one image a call, as an export with `--batch_size 1`."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def signatures(self):
        inputs, outputs = super().signatures()["image_bytes"]
        return {
            "image_bytes": ({n: (dtype, (1, *s[1:])) for n, (dtype, s) in inputs.items()}, outputs)
        }

    def run(self, signature, inputs):
        self.sizes.append(len(next(iter(inputs.values()))))
        return super().run(signature, inputs)


def test_batch_of_an_export_is_kept():
    runtime = OneImage()
    with serving(Model("colours", "1", [runtime])) as url, ThreadPoolExecutor(8) as pool:
        url += "/v1/models/colours"
        list(pool.map(lambda _: assert_answers(url), range(16)))
    assert set(runtime.sizes) == {1}
