"""The command in a process of its own, with exports of classifiers."""

import json
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
import requests
from PIL import Image
from sklearn.datasets import load_sample_images
from support.serving import b64, command

from zoo.inference.source.run import Run
from zoo.serve.app import Model
from zoo.serve.command import ready
from zoo.serve.exports import find

pytestmark = pytest.mark.slow
NAME = "lambda_resnet14"
FIXTURES = Path(__file__).parents[2] / "fixtures"
EXPORT = FIXTURES / "exports" / "saved_model"


@pytest.fixture(scope="module")
def server():
    with command(str(EXPORT), "--name", NAME) as (process, url):
        yield process, url


@pytest.fixture
def photos(tmp_path) -> list[Path]:
    """An image turned by EXIF, one as PNG, a small one without colours."""
    china, flower = (Image.fromarray(image) for image in load_sample_images().images)
    exif = Image.Exif()
    exif[0x0112] = 6
    paths = [tmp_path / name for name in ("china.jpg", "flower.png", "tiny.jpg")]
    china.save(paths[0], exif=exif)
    flower.resize((200, 300)).save(paths[1])
    china.crop((0, 0, 9, 9)).convert("L").save(paths[2])
    return paths


def test_the_same_answers_as_predict(server, photos):
    classifier = Run(FIXTURES / "classifier_run").load()
    instances = [b64(path.read_bytes()) for path in photos]
    body = {"signature_name": "image_bytes", "instances": instances}
    response = requests.post(f"{server[1]}/v1/models/{NAME}:predict", json=body, timeout=60)
    rows, answers = response.json()["predictions"], classifier(photos)
    for row, expected in zip(rows, answers, strict=True):
        numbers, names, probabilities = map(list, zip(*expected, strict=True))
        assert (row["classes"], row["labels"]) == (numbers, names)
        np.testing.assert_allclose(row["scores"], probabilities, atol=1e-5)


def test_listens_on_this_machine_only(server):
    connections = psutil.Process(server[0].pid).net_connections("inet")
    listening = {c.laddr for c in connections if c.status == psutil.CONN_LISTEN}
    assert {f"http://{address.ip}:{address.port}" for address in listening} == {server[1]}
    assert server[1].startswith("http://127.0.0.1:")


def test_the_line_of_curl(server, photos):
    photos[2].rename(photos[2].with_name("photo.jpg"))
    port = int(server[1].rpartition(":")[2])
    model = Model(NAME, "1", find(EXPORT).load())
    _, line = ready(model, "127.0.0.1", port).splitlines()
    run = subprocess.run(["sh", "-c", line], cwd=photos[0].parent, capture_output=True, text=True)
    assert run.stdout.startswith('{"predictions":[{"'), run.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_process_is_left(number):
    """With large requests that run, of which each gets an answer if the server can give one.

    Ctrl+C goes to all processes of a terminal.
    """
    # Parsed in a process of its own.
    body = json.dumps({"instances": np.zeros((60, 16, 16, 3)).tolist() * 10})
    export = str(FIXTURES / "exports" / "onnx")

    def ask():
        with suppress(requests.ConnectionError):
            address = f"{url}/v1/models/m:predict"
            return requests.post(address, body, timeout=60).status_code

    with command(export, "--name", "m", start_new_session=True) as (process, url):
        assert ask() == 200
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(ask) for _ in range(4)]
            time.sleep(0.5)
            send = os.killpg if number == signal.SIGINT else os.kill
            send(process.pid, number)
            assert process.wait(60) == (-9 if number == signal.SIGKILL else 0)
            answers = {one.result(60) for one in asked}
        assert answers <= ({200, None} if number == signal.SIGKILL else {200, 503})
        assert process.stdout.read().endswith("stopped\n") == (number != signal.SIGKILL)
        assert not psutil.wait_procs(children, 10)[1]
