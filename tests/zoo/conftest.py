"""A finished run and a folder of images, for the tests that need them."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from PIL import Image

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Path:
    """Folder of a run of a small network, one epoch on digits."""
    folder = tmp_path_factory.mktemp("runs") / "quick"
    return shutil.copytree(FIXTURES / "classifier_run", folder)


@pytest.fixture(scope="session")
def published(tmp_path_factory) -> Path:
    """Folder of that network, published."""
    folder = tmp_path_factory.mktemp("published") / "digits"
    return shutil.copytree(FIXTURES / "published_classifier", folder)


@pytest.fixture
def copy(published, tmp_path) -> Path:
    """Copy of the published folder, which a test may change."""
    return shutil.copytree(published, tmp_path / "copy")


def write_image(path: Path, color, size=(40, 30)) -> Path:
    """Writes a noisy picture of one colour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(0).integers(-20, 20, (size[1], size[0], 3))
    Image.fromarray(np.clip(noise + color, 0, 255).astype("uint8")).save(path)
    return path


@pytest.fixture
def photos(tmp_path) -> Path:
    """Folder with the classes blue and red, ten JPEG or PNG files each."""
    for i in range(10):
        suffix = ("jpg", "png", "JPEG")[i % 3]
        write_image(tmp_path / "photos" / "red" / f"{i}.{suffix}", (200, 30, 30), (40, 30 + i))
        write_image(tmp_path / "photos" / "blue" / f"{i}.{suffix}", (30, 30, 200))
    return tmp_path / "photos"


@pytest.fixture
def photo(tmp_path) -> str:
    """An image file of noise, 30 x 20 pixels."""
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), "uint8")
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return str(tmp_path / "photo.png")


@pytest.fixture
def no_model(monkeypatch):
    """Fails if a model is built or loaded."""
    from zoo.inference.source.kinds import Published, Run, Weights

    for kind in (Published, Run, Weights):
        monkeypatch.setattr(kind, "load", lambda *_: pytest.fail("the model came first"))


@pytest.fixture
def figures(monkeypatch) -> list:
    """Figures, in the order in which they are written."""
    from matplotlib.figure import Figure

    written, save = [], Figure.savefig

    def spy(figure, *arguments, **options):
        written.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", spy)
    return written


@pytest.fixture
def environ(monkeypatch) -> Callable[..., None]:
    """Sets environment variables for a test, and removes those that are None."""

    def change(**variables: str | None) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value or "")
            if value is None:
                monkeypatch.delenv(name)

    return change


@pytest.fixture
def modules(monkeypatch) -> Callable[..., None]:
    """Sets what imports of a test get, by name: another module, None for one that is missing.

    Those that are `...` are imported anew.
    """

    def change(**others: Any) -> None:
        for name, module in others.items():
            monkeypatch.setitem(sys.modules, name, module)
            if module is ...:
                del sys.modules[name]

    return change


@pytest.fixture
def on_backend(monkeypatch) -> Callable[[str], None]:
    """Lets Keras say that it runs on another backend."""
    return lambda name: monkeypatch.setattr(keras.config, "backend", lambda: name)


@pytest.fixture
def on_jax(on_backend) -> None:
    on_backend("jax")


@pytest.fixture(scope="session")
def bucket_server():
    """A bucket server, for the tests of a session."""
    from support.buckets import serving

    with serving() as server:
        yield server


@pytest.fixture
def bucket(bucket_server, environ) -> str:
    """An empty bucket that TensorFlow's client in this process reads and writes."""
    environ(**bucket_server.environment)
    return f"gs://bucket{next(bucket_server.numbers)}"
