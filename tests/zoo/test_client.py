"""The client, and a server process of TensorFlow alone that it asks."""

import base64
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import psutil
import pytest
import requests
import tensorflow as tf
from PIL import Image
from sklearn.datasets import load_sample_images
from support import commands
from support.servables import small_servable

from zoo import client
from zoo.cli.run import BACKENDS, run_command
from zoo.client import ClientConfig
from zoo.export import saved_model
from zoo.inference.classifier import Classifier
from zoo.inference.predictions import ClassScore

fail = partial(commands.fail, client.main, backends=BACKENDS)

ROOT = Path(client.__file__).parents[1]
SERVER = ROOT / "tests" / "serving" / "server.py"
COLOURS = {"rot": (220, 20, 20), "grün": (20, 220, 20), "blau": (20, 20, 220)}


class Colours(tf.Module):
    """Predicts how red, green and blue images are."""

    def __init__(self, labels):
        super().__init__()
        self.labels = tf.constant(list(labels))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="image_bytes")])
    def image_bytes(self, image_bytes):
        colour = tf.TensorSpec([3], tf.float32)
        means = tf.map_fn(self._mean, image_bytes, fn_output_signature=colour)
        scores, classes = tf.math.top_k(tf.nn.softmax(3 * means), 3)
        return {"classes": classes, "labels": tf.gather(self.labels, classes), "scores": scores}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="image_bytes")])
    def sizes(self, image_bytes):
        return {"size": tf.strings.length(image_bytes)}

    def _mean(self, data):
        image = tf.io.decode_image(data, channels=3, expand_animations=False)
        return tf.reduce_mean(tf.cast(image, tf.float32) / 255, (0, 1))


class Server(NamedTuple):
    """A process and where it listens."""

    pid: int
    rest: str
    grpc: str


@pytest.fixture(scope="module")
def servable() -> Classifier:
    keras.utils.set_random_seed(0)
    return small_servable("lambda_resnet14")


@pytest.fixture(scope="module")
def server(servable, tmp_path_factory) -> Iterator[Server]:
    """Serves an export and version 10 of colours, whose version 9 knows no names."""
    folder = tmp_path_factory.mktemp("exports")
    for version, labels in ((9, "???"), (10, COLOURS)):
        model = Colours(labels)
        signatures = {"image_bytes": model.image_bytes, "sizes": model.sizes}
        tf.saved_model.save(model, str(folder / "colours" / str(version)), signatures)
    saved_model.write(servable, folder / servable.name / "1")
    command = [sys.executable, "-P", str(SERVER), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            ports = json.loads(process.stdout.readline())
            urls = f"http://127.0.0.1:{ports['rest']}", f"grpc://127.0.0.1:{ports['grpc']}"
            yield Server(process.pid, *urls)
        finally:
            process.terminate()


@pytest.fixture(params=["rest", "grpc"])
def url(server, request) -> str:
    return getattr(server, request.param)


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The current folder, with an image of each colour, one cut off and one too large."""
    monkeypatch.chdir(tmp_path)
    for name, colour in COLOURS.items():
        Image.new("RGB", (40, 30), colour).save(f"{name}, 1.jpg")
    Path("cut.jpg").write_bytes(Path("rot, 1.jpg").read_bytes()[:300])
    Path("large.jpg").write_bytes(Path("rot, 1.jpg").read_bytes() + bytes(17 * 2**20))
    Path("empty.jpg").touch()
    return tmp_path


def ask(url: str, model: str, *photos: Path) -> list[list[ClassScore]]:
    config = ClientConfig(url=url, model=model, photos=[str(photo) for photo in photos])
    with client.connect(config) as send:
        return [answer.top() for _, answer in client.predict_files(send, config, photos)]


def assert_answers(server: Server) -> None:
    """Checks that the server still does what it is for."""
    for url in (server.rest, server.grpc):
        (top,) = ask(url, "colours", Path("blau, 1.jpg"))
        assert top[0].name == "blau"


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_answers_are_printed_and_written(url, capsys):
    photos = [f"{name}, 1.jpg" for name in COLOURS]
    client.main(["--url", url, "--model", "colours", *photos, "--output", "new/answers.json"])
    printed = capsys.readouterr().out

    written = json.loads(Path("new/answers.json").read_text("utf-8"))
    asked = {"url": url, "model": "colours", "signature": "image_bytes", "timeout": 60}
    assert {key: value for key, value in written.items() if key != "photos"} == asked
    assert [entry["photo"] for entry in written["photos"]] == photos
    for index, (name, entry) in enumerate(zip(COLOURS, written["photos"], strict=True)):
        best = entry["top"][0]
        assert (best["index"], best["name"]) == (index, name)
        assert 0.6 < best["probability"] < 0.9
        assert sum(guess["probability"] for guess in entry["top"]) == pytest.approx(1)
        assert entry["photo"] in printed.splitlines()
        percent = f"{best['probability']:.1%}"
        assert re.search(rf"^ +{percent}  ##+ +{name}$", printed, re.MULTILINE)
    assert printed.splitlines()[-1] == "wrote new/answers.json"


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_settings_from_a_file_and_a_version(url, capsys):
    Path("settings.yaml").write_text(f"model: colours\nurl: {url}\nmodel_version: 10")
    client.main(["--config", "settings.yaml", "--", "rot, 1.jpg"])
    assert capsys.readouterr().out.count("%  ") == 3


CONFIG = ClientConfig(model="m", photos=["."])


def response(images: list[bytes]) -> bytes:
    """Predicts for each image the class with the number of its bytes."""
    rows = [{"classes": [len(image)], "labels": [""], "scores": [1]} for image in images]
    return json.dumps({"predictions": rows}).encode()


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        ([10] * 18, [8, 8, 2]),
        ([10, 3 * 2**20, 5 * 2**20, 10], [2, 2]),
        ([9 * 2**20, 10, 9 * 2**20], [1, 1, 1]),
    ],
)
def test_images_go_in_batches(tmp_path, sizes, batches):
    photos = [tmp_path / str(i) for i in range(len(sizes))]
    for photo, size in zip(photos, sizes, strict=True):
        photo.write_bytes(bytes(size))
    received = []

    def predict(images):
        received.append(len(images))
        return response(images)

    answers = list(client.predict_files(predict, CONFIG, photos))
    assert [photo for photo, _ in answers] == photos
    assert [answer.top()[0].index for _, answer in answers] == sizes
    assert received == batches


def test_the_server_gets_other_formats_as_png(tmp_path):
    photos = [tmp_path / "a.webp", tmp_path / "b.tiff", tmp_path / "c.jpg"]
    for photo in photos:
        Image.new("RGB", (8, 8)).save(photo)
    received = []

    def predict(images):
        received.extend(image[:4] for image in images)
        return response(images)

    assert [photo for photo, _ in client.predict_files(predict, CONFIG, photos)] == photos
    assert received == [b"\x89PNG", b"\x89PNG", photos[2].read_bytes()[:4]]


def test_a_batch_that_is_refused_is_asked_one_by_one(tmp_path):
    photos = [tmp_path / str(i) for i in range(3)]
    for photo in photos:
        photo.write_bytes(b"1")

    def predict(images):
        if len(images) > 1:
            raise client.Refused("too large")
        return response(images)

    assert [photo for photo, _ in client.predict_files(predict, CONFIG, photos)] == photos


def test_an_answer_for_another_number_of_images(tmp_path):
    photos = [tmp_path / "1", tmp_path / "2"]
    for photo in photos:
        photo.write_bytes(b"1")
    with pytest.raises(ValueError, match=r":8501: expected 2 predictions\. Received: 1"):
        list(client.predict_files(lambda images: response(images[:1]), CONFIG, photos))


@pytest.mark.slow
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("arguments", "by_rest", "by_grpc"),
    [
        ("cut.jpg", "400 Bad Request: ", "INVALID_ARGUMENT: "),
        ("large.jpg", "413 ", "RESOURCE_EXHAUSTED: "),
        ("rot --signature nope", "400 Bad Request: ", "INVALID_ARGUMENT: "),
        ("rot --model nope", "404 Not Found: ", "NOT_FOUND: "),
        ("rot --model grün", "404 Not Found: ", "NOT_FOUND: "),
        ("rot --model_version 9", "404 Not Found: ", "NOT_FOUND: "),
    ],
)
def test_who_refused_what(server, monkeypatch, capsys, arguments, by_rest, by_grpc):
    Path("rot, 1.jpg").rename("rot")
    photo = arguments.split()[0]
    for url, reason in ((server.rest, by_rest), (server.grpc, by_grpc)):
        line = fail(monkeypatch, capsys, "--url", url, "--model", "colours", *arguments.split())
        assert f"error: {url} refused {photo}: {reason}" in line
        assert len(line.split(reason)[1]) > 10, "the server's own words"
        assert "--model" not in arguments or arguments.split()[-1] in line
    assert_answers(server)


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_one_of_several_images_is_refused(url, monkeypatch, capsys):
    photos = ["rot, 1.jpg", "cut.jpg", "blau, 1.jpg"]
    monkeypatch.setattr("sys.argv", ["client", "--url", url, "--model", "colours", *photos])
    with pytest.raises(SystemExit):
        run_command(client.main)
    printed = capsys.readouterr()
    assert f"{url} refused cut.jpg: " in printed.err
    assert printed.out.startswith("rot, 1.jpg\n")


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_a_signature_with_other_outputs(url, monkeypatch, capsys):
    arguments = ["--url", url, "--model", "colours", "--signature", "sizes"]
    line = fail(monkeypatch, capsys, *arguments, "rot, 1.jpg")
    assert "expected classes, labels and scores from 'sizes' of 'colours' at " + url in line


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_several_requests_at_once(server):
    names = [*COLOURS, "cut"] * 6

    def guess(index: int) -> str:
        name = names[index]
        url = (server.rest, server.grpc)[index % 2]
        photo = Path("cut.jpg" if name == "cut" else f"{name}, 1.jpg")
        try:
            return ask(url, "colours", photo)[0][0].name
        except ValueError as error:
            return "cut" if f"{url} refused cut.jpg" in str(error) else str(error)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(guess, range(len(names)))) == names
    assert_answers(server)


@pytest.mark.slow
def test_server_listens_on_this_machine_only(server):
    connections = psutil.Process(server.pid).net_connections("inet")
    listening = [c.laddr for c in connections if c.status == psutil.CONN_LISTEN]
    ports = {int(url.rsplit(":", 1)[1]) for url in (server.rest, server.grpc)}
    assert {address.port for address in listening} == ports
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_server_takes_rows_and_columns_as_tensorflow_serving(server):
    image = {"b64": base64.b64encode(Path("blau, 1.jpg").read_bytes()).decode()}

    def post(content: dict) -> requests.Response:
        content = {"signature_name": "image_bytes", **content}
        return requests.post(f"{server.rest}/v1/models/colours:predict", json=content, timeout=60)

    rows = [post({"instances": [row]}).json() for row in (image, {"image_bytes": image})]
    assert rows[0] == rows[1]
    (row,) = rows[0]["predictions"]
    for inputs in ([image], {"image_bytes": [image]}):
        columns = post({"inputs": inputs}).json()["outputs"]
        assert {name: values[0] for name, values in columns.items()} == row
    sizes = post({"instances": ["four", {"b64": "AAAA"}], "signature_name": "sizes"})
    assert sizes.json() == {"predictions": [4, 3]}
    for wrong in ({"instances": [{"b64": "?"}]}, {"instances": [{"x": 1}]}, {"inputs": [[1]]}, {}):
        assert post(wrong).status_code == 400, wrong
    (state,) = requests.get(f"{server.rest}/v1/models/colours", timeout=60).json().values()
    assert [(s["version"], s["state"]) for s in state] == [("10", "AVAILABLE")]
    assert requests.get(f"{server.rest}/v1/models/nope", timeout=60).status_code == 404


def assert_same(server: Server, photos: list[Path], expected: list[list[ClassScore]], **tolerance):
    for url in (server.rest, server.grpc):
        for top, wanted in zip(ask(url, "lambda_resnet14", *photos), expected, strict=True):
            assert [guess[:2] for guess in top] == [guess[:2] for guess in wanted]
            scores = [guess.probability for guess in top]
            np.testing.assert_allclose(scores, [guess[2] for guess in wanted], **tolerance)


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_the_same_answers_as_predict(server, servable):
    china, flower = (Image.fromarray(image) for image in load_sample_images().images)
    exif = Image.Exif()
    exif[0x0112] = 6
    china.save("china.jpg", exif=exif)
    flower.resize((200, 300)).save("flower.png")
    china.crop((0, 0, 9, 9)).convert("L").save("tiny.jpg")
    photos = [Path("china.jpg"), Path("flower.png"), Path("tiny.jpg")]
    expected = [answer.top for answer in servable.predict_files(photos, 5)]
    assert_same(server, photos, expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_refusals_of_an_export(server, monkeypatch, capsys):
    Image.new("L", (8000, 7000)).save("huge.png")
    for photo, reason in (("huge.png", "at most 50 megapixels"), ("cut.jpg", "")):
        for url, code in ((server.rest, "400 Bad Request"), (server.grpc, "INVALID_ARGUMENT")):
            line = fail(monkeypatch, capsys, "--url", url, "--model", "lambda_resnet14", photo)
            assert f"{url} refused {photo}: {code}: " in line
            assert reason in line
    assert_answers(server)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_no_server(monkeypatch, capsys, scheme):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"{scheme}://127.0.0.1:{closed.getsockname()[1]}"
    line = fail(monkeypatch, capsys, "--url", url, "--model", "colours", "rot, 1.jpg")
    assert f"error: {url} did not answer (" in line
    assert "Connection refused" in line
    assert len(line) < 400


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_server_that_does_not_answer_in_time(monkeypatch, capsys, scheme):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}"
        arguments = ["--url", url, "--model", "colours", "--timeout", "0.2", "rot, 1.jpg"]
        assert f"{url} did not answer within 0.2 s" in fail(monkeypatch, capsys, *arguments)


class OtherServer(BaseHTTPRequestHandler):
    """A web server that is no TensorFlow Serving; the model's name is the status it answers."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(int(re.search(r"models/(\d+)", self.path)[1]))
        self.end_headers()
        self.wfile.write(b"<html>\n<p>Welcome!</p>\n</html>")

    def log_message(self, *_):
        pass


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (200, "expected classes, labels and scores from 'image_bytes' of '200'"),
        (502, "refused rot, 1.jpg: 502 Bad Gateway: <html> <p>Welcome!</p> </html>"),
    ],
)
def test_another_web_server(monkeypatch, capsys, status, message):
    with ThreadingHTTPServer(("127.0.0.1", 0), OtherServer) as other:
        threading.Thread(target=other.serve_forever).start()
        url = f"http://127.0.0.1:{other.server_port}"
        line = fail(monkeypatch, capsys, "--url", url, "--model", str(status), "rot, 1.jpg")
        other.shutdown()
    assert message in line


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--model m", "the following arguments are required: PHOTOS"),
        ("cut.jpg", "model: Field required"),
        ("cut.jpg --model m --models n", "did you mean '--model'?"),
        ("missing.jpg --model m", "expected an image or a folder. Received: 'missing.jpg'"),
        ("folder --model m", "photos: no images (.jpg, .jpeg, .png, .webp, .bm"),
        ("cut.jpg empty.jpg --model m", "that is not empty. Received: 'empty.jpg'"),
        ("cut.jpg --model m --url ftp://a:1", "url: expected http://HOST:PORT, https://"),
        ("cut.jpg --model m --url 127.0.0.1:8501", "Received: '127.0.0.1:8501'"),
        ("cut.jpg --model m --url http://:8501", "Received: 'http://:8501'"),
        ("cut.jpg --model m --url http://a:x", "Received: 'http://a:x'"),
        ("cut.jpg --model m --url http://a?b=c", "Received: 'http://a?b=c'"),
        ("cut.jpg --model m --url grpc://a", "Received: 'grpc://a'"),
        ("cut.jpg --model m --url grpc://a:1/b", "Received: 'grpc://a:1/b'"),
        ("cut.jpg --model m --model_version new", "model_version: "),
        ("cut.jpg --model m --timeout 0", "timeout: "),
        ("cut.jpg --model m --timeout inf", "timeout: "),
        ("cut.jpg --model m --output a.gif", "expected a file named .png or .json. Received: 'a.g"),
        ("photo.json --model m --output photo.json", "photo.json is one of the images"),
    ],
)
def test_bad_input_ends_before_any_request(monkeypatch, capsys, arguments, message):
    Path("folder").mkdir()
    Path("photo.json").write_bytes(Path("cut.jpg").read_bytes())
    monkeypatch.setattr(client, "connect", lambda _: pytest.fail("the request came first"))
    assert message in fail(monkeypatch, capsys, *arguments.split())


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_starts_without_keras_and_tensorflow(server):
    arguments = ["--url", server.rest, "--model", "colours", "rot, 1.jpg"]
    script = (
        f"import sys; from zoo import client; client.main({arguments})\n"
        "sys.exit('keras' in sys.modules or 'tensorflow' in sys.modules)"
    )
    environment = {"PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True)
    assert result.returncode == 0, result.stderr.decode()
    assert "rot" in result.stdout.decode()
