"""The client, and a server in this process that it asks."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import requests
from PIL import Image
from support import commands
from support.lfs import LFS_POINTER, PULL
from support.serving import COLOURS, Colours, picture, serving

from zoo import client
from zoo.client import ClientConfig
from zoo.serve.app import Model

fail = partial(commands.fail, client.main)
ROOT = Path(client.__file__).parents[1]


@pytest.fixture(scope="module")
def url():
    with serving(Model("colours", "10", [Colours()], max_bytes=2**20)) as url:
        yield url


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The current folder, with an image of each colour, one cut off and one too large."""
    monkeypatch.chdir(tmp_path)
    for name in COLOURS:
        Path(f"{name}, 1.jpg").write_bytes(picture(name))
    Path("cut.jpg").write_bytes(picture("rot")[:60])
    Path("large.jpg").write_bytes(picture("rot") + bytes(2**20))
    return tmp_path


@pytest.mark.usefixtures("here")
def test_answers_are_printed_and_written(url, capsys):
    photos = [f"{name}, 1.jpg" for name in COLOURS]
    Path("settings.yaml").write_text(f"model: colours\nurl: {url}/\nmodel_version: 10")
    client.main(["--config", "settings.yaml", "--output", "new/answers.json", "--", *photos])
    printed = capsys.readouterr().out

    written = json.loads(Path("new/answers.json").read_text("utf-8"))
    asked = {"url": url, "model": "colours", "model_version": 10, "signature": "image_bytes"}
    asked["timeout"] = 60
    assert {key: value for key, value in written.items() if key != "photos"} == asked
    assert [entry["photo"] for entry in written["photos"]] == photos
    for index, (name, entry) in enumerate(zip(COLOURS, written["photos"], strict=True)):
        best = entry["top"][0]
        assert (best["index"], best["name"]) == (index, name)
        assert best["probability"] == pytest.approx(220 / 256)
        assert entry["photo"] in printed.splitlines()
        assert re.search(rf"^ +85.9%  #+ +{name}$", printed, re.MULTILINE)
    assert printed.splitlines()[-1] == "wrote new/answers.json"


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


def test_objects_of_a_detector():
    """Padding, and boxes that were clipped to nothing, are none."""
    answer = client.ServedPrediction(
        classes=[7, 8, 9],
        labels=["cat", "dog", "cow"],
        scores=[0.912346, 0.5, 0.0],
        boxes=[[1.23449, 2.0, 3.0, 4.0], [5.0, 6.0, 0.0, 7.0], [1.0, 1.0, 1.0, 1.0]],
    )
    assert answer.found(3) == [
        {"name": "cat", "image_id": 3, "category_id": 7, "bbox": [1.234, 2, 3, 4], "score": 0.91235}
    ]
    assert answer.top()[1] == (8, "dog", 0.5)


@pytest.mark.usefixtures("here")
def test_objects_are_printed_written_and_drawn(monkeypatch, capsys):
    photos = [f"{name}, 1.jpg" for name in COLOURS]
    row = {"classes": [7, 8], "labels": ["cat", "dog"], "scores": [0.9, 0.4]}
    row |= {"boxes": [[1, 2, 30, 20], [0, 0, 9, 9]], "masks": [[[255]], [[0]]], "sizes": [30, 40]}

    @contextmanager
    def connect(config):
        yield lambda images: json.dumps({"predictions": [row] * len(images)}).encode()

    monkeypatch.setattr(client, "connect", connect)
    client.main([*photos, "--model", "m", "--output", "found.json"])
    cat = "   90.0%  cat, 30 x 20 pixels at (1, 2)"
    lines = list(filter(None, capsys.readouterr().out.splitlines()))
    assert lines == [*(line for photo in photos for line in (photo, cat)), "wrote found.json"]
    written = json.loads(Path("found.json").read_text())
    assert [(one["image_id"], one["file_name"], one["category_id"]) for one in written] == [
        (number, photo, category) for number, photo in enumerate(photos, 1) for category in (7, 8)
    ]
    assert {tuple(one["segmentation"]["size"]) for one in written} == {(30, 40)}
    client.main([*photos, "--model", "m", "--output", "found.png", "--threshold", "0.3"])
    assert "   40.0%  dog, 9 x 9 pixels at (0, 0)" in capsys.readouterr().out
    with Image.open("found.png") as grid:
        assert grid.width > 300
    del row["boxes"], row["masks"]
    with pytest.raises(ValueError, match=r"^output: .png is for detectors. Received: m is none"):
        client.main([*photos, "--model", "m", "--output", "found.png"])


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_pixels_of_16_bits_are_not_sent(tmp_path, suffix):
    photo = tmp_path / f"a.{suffix}"
    Image.new("I;16", (8, 8)).save(photo)
    with pytest.raises(ValueError, match=rf"^photos: .*a\.{suffix}: .*; scale it to 8 bits first"):
        list(client.predict_files(pytest.fail, CONFIG, [photo]))


def test_a_batch_that_is_refused_is_asked_one_by_one(tmp_path):
    photos = [tmp_path / str(i) for i in range(3)]
    for photo in photos:
        photo.write_bytes(b"1")

    def predict(images):
        if len(images) > 1 or images == [b"22"]:
            raise client.Refused("too large")
        return response(images)

    assert [photo for photo, _ in client.predict_files(predict, CONFIG, photos)] == photos
    photos[1].write_bytes(b"22")
    answers = client.predict_files(predict, CONFIG, photos)
    assert next(answers)[0] == photos[0]
    with pytest.raises(ValueError, match=r":8501 refused .*/1: too large$"):
        next(answers)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("cut.jpg", "400 Bad Request: expected a JPEG or PNG image"),
        ("large.jpg", "413 "),
        ("rot --signature nope", "400 Bad Request: no such signature_name. Received: 'nope'"),
        ("rot --model nope", "404 Not Found: Servable not found for request: Latest(nope)"),
        ("rot --model grün/a:b", "404 Not Found: "),
        ("rot --model_version 9", "404 Not Found: Servable not found for request: Specific(colou"),
    ],
)
def test_refusals(url, monkeypatch, capsys, arguments, reason):
    Path("rot, 1.jpg").rename("rot")
    photo = arguments.split()[0]
    line = fail(monkeypatch, capsys, "--url", url, "--model", "colours", *arguments.split())
    assert f"error: {url} refused {photo}: {reason}" in line


def test_a_server_may_take_its_time():
    """The limit is for the whole answer, not for its first byte."""

    class Slow(Colours):
        def run(self, signature, inputs):
            time.sleep(0.5)
            return super().run(signature, inputs)

    with serving(Model("colours", "1", [Slow()])) as url:
        config = ClientConfig(photos=["."], model="colours", url=url, timeout=20)
        with client.connect(config) as send:
            assert b"predictions" in send([picture("rot")])


def test_address_of_a_version(monkeypatch):
    asked = []

    def post(_, url, **__):
        asked.append(url)
        raise requests.ConnectionError("no server")

    monkeypatch.setattr(requests.Session, "post", post)
    config = ClientConfig(photos=["a.jpg"], model="a/b", model_version=3, url="http://x:1")
    with client.connect(config) as send, pytest.raises(ConnectionError, match="no server"):
        send([b""])
    assert asked == ["http://x:1/v1/models/a%2Fb/versions/3:predict"]


@pytest.mark.usefixtures("here")
def test_a_signature_with_other_outputs(url, monkeypatch, capsys):
    arguments = ["--url", url, "--model", "colours", "--signature", "sizes"]
    line = fail(monkeypatch, capsys, *arguments, "rot, 1.jpg")
    assert "expected classes, labels and scores from 'sizes' of 'colours' at " + url in line


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("is_open", "reason"), [(False, "(Connection refused)"), (True, "within 0.2 s;")]
)
def test_no_server(monkeypatch, capsys, is_open, reason):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        if not is_open:
            silent.close()
        arguments = ["--url", url, "--model", "colours", "--timeout", "0.2", "rot, 1.jpg"]
        line = fail(monkeypatch, capsys, *arguments)
    assert f"error: {url} did not answer " in line
    assert reason.strip("()") in line
    assert len(line) < 400


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_starts_without_keras_and_tensorflow(url):
    arguments = ["--url", url, "--model", "colours", "rot, 1.jpg"]
    script = (
        f"import sys; from zoo import client; client.main({arguments})\n"
        "sys.exit('keras' in sys.modules or 'tensorflow' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True)
    assert result.returncode == 0, result.stderr.decode()
    assert "rot" in result.stdout.decode()


def test_pointers_of_git_lfs_are_named(tmp_path):
    (tmp_path / "cat.jpg").write_bytes(LFS_POINTER)
    with pytest.raises(ValueError, match=PULL):
        client._content(tmp_path / "cat.jpg")
