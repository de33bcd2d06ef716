"""Bad arguments of the client, and bad answers of servers, over real connections on loopback."""

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from PIL import Image
from support import commands

from zoo import client

GOOD = {"classes": [1, 0], "labels": ["a", "b"], "scores": [0.7, 0.3]}
DEEP = b'{"predictions": ' + b"[" * 5000 + b"]" * 5000 + b"}"


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The current folder, with an image and what is none."""
    monkeypatch.chdir(tmp_path)
    Image.new("L", (4, 3)).save("a.jpg")
    Path("same.json").hardlink_to("a.jpg")
    os.mkfifo("fifo.jpg")
    Path("folder").mkdir()
    Path("pipes").mkdir()
    os.mkfifo("pipes/fifo.jpg")
    Path("empty.jpg").touch()
    Path("folder.json").mkdir()
    return tmp_path


def answer(**changes) -> bytes:
    """A good answer but for some changes; None leaves a part out."""
    row = {**GOOD, **changes}
    row = {name: value for name, value in row.items() if value is not None}
    return json.dumps({"predictions": [row]}).encode()


# By name of the model: status, body, part of the message. pydantic checks the types.
ANSWERS = {
    "score of -5": (200, answer(scores=[-5, 0]), "greater than or equal to 0, not -5"),
    "score of 1.00001": (200, answer(scores=[0, 1.00001]), "scores.1: Input should be less than"),
    "NaN": (200, answer(scores=[float("nan"), 0]), "scores.0: Input should be a finite number"),
    "score as text": (200, answer(scores=["0.7", 0]), "valid number, not '0.7'"),
    "score of true": (200, answer(scores=[True, 0]), "valid number, not True"),
    "no scores": (200, answer(scores=None), "predictions.0.scores: Field required"),
    "a score too few": (200, answer(scores=[0.7]), "scores as classes. Received: [2, 2, 1]"),
    "a label too few": (200, answer(labels=["a"]), "Received: [2, 1, 2]"),
    "a class too few": (200, answer(classes=[1]), "Received: [1, 2, 2]"),
    "a box too few": (200, answer(boxes=[[0, 0, 1, 1]]), "Received: [2, 2, 2, 1]"),
    "a mask too many": (200, answer(masks=[[[0]]] * 3), "Received: [2, 2, 2, 3]"),
    "box of three sides": (200, answer(boxes=[[0, 0, 1]] * 2), "boxes.0: List should have at"),
    "mask of 256": (200, answer(masks=[[[256]]] * 2), "less than or equal to 255"),
    "no side": (200, answer(sizes=[0, 5]), "sizes.0: Input should be greater than or equal to 1"),
    "empty classes": (200, answer(classes=[]), "classes: List should have at least 1 item"),
    "class -1": (200, answer(classes=[-1, 0]), "greater than or equal to 0, not -1"),
    "a long label": (200, answer(labels=["a" * 10**6, "b"]), "at most 1000 characters, not 'aaa"),
    "an escape as score": (200, answer(scores=["\x1b[2J", 0]), r"not '\x1b[2J'"),
    "no rows": (200, b'{"predictions": []}', "expected 1 predictions. Received: 0"),
    "two rows": (200, json.dumps({"predictions": [GOOD] * 2}).encode(), "Received: 2"),
    "columns": (200, json.dumps({"outputs": GOOD}).encode(), "predictions: Field required"),
    "a list": (200, b"[]", "Received: the answer: "),
    "cut off": (200, answer()[:-9], "Invalid JSON: EOF"),
    "nested": (200, DEEP, "Invalid JSON: recursion limit"),
    "more than memory": (200, b" " * (client.MAX_ANSWER_BYTES + 1), "Received: more than 16 MiB"),
    "an error with escapes": (500, b'{"error": "\\u001b]0;title\\u0007"}', r"500 Internal"),
    "an error that is a list": (500, b'{"error": ["a", "b"]}', "500 Internal Server Error: ['a'"),
    "an error that is no JSON": (418, b"\x1b[31m\x9b31m", r"\x1b[31m"),
    "a long error": (400, b"word " * 10**5, "characters left out]"),
    "nothing new": (304, b"", "refused a.jpg: 304 Not Modified:"),
}
# By name of the model: all that the server sends, part of the message.
RAW = {
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", "did not answer ("),
    "closed": (b"", "did not answer ("),
    "less than announced": (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", "did not answer ("),
    "no gzip": (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n{}", "did not answer ("),
    "a reason with escapes": (b"HTTP/1.1 500 \x1b[31m\r\n\r\n", r"refused a.jpg: 500 \x1b[31m:"),
    "redirected for ever": (b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", "did not answer ("),
}
SLOW = {
    "status": b"HTTP/1.1 200 " + b"O" * 999,
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 99,
}


class Hostile(BaseHTTPRequestHandler):
    """Answers what is wrong in the way that the name of the model says."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        model = re.search(r"models/(.*):predict", self.path)[1].replace("%20", " ")
        if model in ANSWERS:
            status, body, _ = ANSWERS[model]
            self.send_response(status)
            self.end_headers()
            self.write(body)
        elif model == "odd labels":
            rows = [{**GOOD, "labels": ["\x1b[2J\n\u202e", "b"]}] * len(asked["instances"])
            self.send_response(200)
            self.end_headers()
            self.write(json.dumps({"predictions": rows}).encode())
        elif model in RAW:
            self.write(RAW[model][0])
        else:
            for byte in SLOW[model]:
                self.write(bytes([byte]))
                time.sleep(0.05)

    def do_GET(self):
        self.write(RAW["redirected for ever"][0])

    def write(self, content: bytes) -> None:
        try:
            self.wfile.write(content)
        except OSError:  # the client has heard enough
            self.close_connection = True

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def rest() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hostile) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", [*ANSWERS, *RAW])
def test_bad_answers(monkeypatch, capsys, rest, name):
    *_, message = (ANSWERS | RAW)[name]
    command = f"client a.jpg --url {rest} --output new/a.json --model"
    line = commands.refuse(command, monkeypatch, capsys, name)
    assert f"{rest} " in line or f" at {rest}" in line or f"{rest}: " in line
    assert message in line
    assert len(line) < 700


def test_odd_labels_and_names_cost_no_answer(here, rest, capsys):
    odd = os.fsdecode(b"caf\xe9.jpg")
    (here / "odd").mkdir()
    for name in (odd, "\x1b[31m.jpg", "two\nlines.jpg"):
        Path(f"odd/{name}").write_bytes(b"1")
    client.main(["a.jpg", "odd", "--url", rest, "--model", "odd labels", "--output", "new.json"])
    printed = capsys.readouterr().out.splitlines()
    assert all(line.isprintable() for line in printed)
    names = [line for line in printed if line.endswith(".jpg")]
    assert names == ["a.jpg", r"odd/\x1b[31m.jpg", r"odd/caf\udce9.jpg", r"odd/two\nlines.jpg"]
    assert sum(line.endswith(r"  \x1b[2J\n\u202e") for line in printed) == 4
    written = json.loads(Path("new.json").read_text())["photos"]
    assert [os.path.exists(entry["photo"]) for entry in written] == [True] * 4


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", SLOW)
def test_the_limit_is_that_of_the_whole_answer(monkeypatch, capsys, rest, name):
    begin = time.monotonic()
    command = f"client a.jpg --url {rest} --model {name} --timeout 0.3"
    line = commands.refuse(command, monkeypatch, capsys)
    assert f"{rest} did not answer within 0.3 s" in line
    assert time.monotonic() - begin < 2


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--model m", "the following arguments are required: PHOTOS"),
        ("a.jpg", "model: Field required"),
        ("a.jpg --model m --output a.gif", "expected a file named .png or .json. Received: 'a.g"),
        ("a.jpg --model m --output same.json", "expected another file"),
        ("folder --model m", "photos: no images (.jpg, .jpeg, .png, .webp, .bm"),
        ("fifo.jpg --model m", "an image or a folder. Received: 'fifo.jpg'"),
        ("\x1b[2J.jpg --model m", r"and control characters. Received: '\x1b[2J.jpg'"),
        ('"a.jpg --model m', "without quotation marks and control characters. Received: '\"a.jpg'"),
        ("a.jpg pipes --model m", "no images (.jpg, .jpeg, .png, .webp"),
        ("a.jpg empty.jpg --model m", "that is not empty. Received: 'empty.jpg'"),
        ("a.jpg --model=", "model: String should have at least 1 character"),
        ("a.jpg --model m --timeout 0", "timeout: Input should be greater than 0"),
        ("a.jpg --model m --timeout 3601", "less than or equal to 3600. Received: '3601'"),
        ("a.jpg --model m --model_version -1", "model_version: "),
        ("a.jpg --model m --url file:///etc/passwd", "url: expected http://HOST:PORT"),
        ("a.jpg --model m --url http://a:0", "url: expected http://HOST:PORT"),
        ("a.jpg --model m --url http://:8501", "url: expected http://HOST:PORT"),
        ("a.jpg --model m --url http://[::1", "url: expected http://HOST:PORT"),
        ("a.jpg --model m --url http://a?b=c", "url: expected http://HOST:PORT"),
        ("a.jpg --model m --url http://a/#b", "url: expected http://HOST:PORT"),
        ("a.jpg --model m --output folder.json", "a file to write to. Received: 'folder.json'"),
        ("a.jpg --model m --timeouts 5", "no such setting. Received: '--timeouts'"),
    ],
)
def test_bad_arguments(monkeypatch, capsys, arguments, message):
    monkeypatch.setattr(client, "connect", lambda _: pytest.fail("the request came first"))
    assert message in commands.refuse(f"client {arguments}", monkeypatch, capsys)
