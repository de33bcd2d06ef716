"""A server of `zoo.serve` in a thread, and a runtime that tells colours without TensorFlow."""

import base64
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from zoo.serve.app import Model
from zoo.serve.connections import server

ROOT = Path(__file__).parents[2]
COLOURS = {"rot": (220, 20, 20), "grün": (20, 220, 20), "blau": (20, 20, 220)}


class InvalidArgument(Exception):
    """As TensorFlow's, of a file that its graph cannot decode."""

    error_code = 3


class Colours:
    """Predicts how red, green and blue images are."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def signatures(self):
        files, names = {"image_bytes": ("string", [-1])}, ("classes", "labels", "scores")
        images, columns = ("float32", [-1, 1, 2, 3]), ("float32", [-1, 3])
        return {
            "serving_default": ({"images": images}, {"means": columns}),
            "image_bytes": (files, dict.fromkeys(names, columns)),
            "sizes": (files, {"size": ("int32", [-1])}),
        }

    def run(self, signature, inputs):
        (images,) = inputs.values()
        self.batches.append(len(images))
        if signature == "sizes":
            return {"size": np.array([len(file) for file in images], "int32")}
        if signature == "image_bytes":
            images = [self._decode(file) for file in images]
        means = np.stack([np.mean(image, (0, 1)) for image in images]).astype("float32")
        if signature == "serving_default":
            return {"means": means}
        classes = np.argsort(-means)
        labels = np.array([name.encode() for name in COLOURS])
        scores = np.take_along_axis(means / 256, classes, -1)
        return {"classes": classes, "labels": labels[classes], "scores": scores}

    def _decode(self, file: bytes) -> np.ndarray:
        try:
            return np.asarray(Image.open(BytesIO(file), formats=["JPEG", "PNG"]).convert("RGB"))
        except OSError as error:
            raise InvalidArgument(f"expected a JPEG or PNG image ({error})") from None


def picture(name: str) -> bytes:
    """An image file of a colour."""
    file = BytesIO()
    Image.new("RGB", (40, 30), COLOURS[name]).save(file, "PNG")
    return file.getvalue()


def b64(content: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(content).decode()}


@contextmanager
def command(*arguments: str, **options) -> Iterator[tuple[subprocess.Popen, str]]:
    """Runs `python -m zoo.serve` on a free port; yields the process and its address."""
    line = [sys.executable, "-m", "zoo.serve", *arguments, "--port", "0"]
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True, **options) as process:
        try:
            yield process, re.search(r"http://[^/]+", process.stdout.readline())[0]
        finally:
            process.terminate()


@contextmanager
def serving(model: Model) -> Iterator[str]:
    """Serves a model on a free port of 127.0.0.1, the address of which it yields."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        here = server(model)
        thread = threading.Thread(target=here.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            here.should_exit = True
            thread.join()
