"""Fashion-MNIST of a Debian package: TFDS gets the files that its checksums are for."""

import gzip
import hashlib
import io

import numpy as np
import pytest
import tensorflow_datasets as tfds
from tensorflow_datasets.image_classification import mnist

from tools.fashion_mnist import TIMES, main
from zoo.config import DataConfig
from zoo.data.load import load_data

COUNTS = {"train": 12, "t10k": 5}


def compress(content: bytes, name: str, time: int) -> bytes:
    """A gzip file as the authors wrote them, with name and time."""
    file = io.BytesIO()
    with gzip.GzipFile(name, "wb", compresslevel=6, fileobj=file, mtime=time) as stream:
        stream.write(content)
    return file.getvalue().replace(b"\xff", b"\x03", 1)  # written on Unix


@pytest.fixture
def originals(monkeypatch):
    """A tiny Fashion-MNIST, which TFDS takes for the real one: contents of the files, by name."""
    random, files = np.random.default_rng(0), {}
    for part, count in COUNTS.items():
        images = random.integers(0, 256, (count, 28, 28), "uint8")
        for kind, values in ("images-idx3", images), ("labels-idx1", np.arange(count) % 10):
            stem = f"{part}-{kind}-ubyte"
            # An IDX file: type and rank, sizes, values.
            head = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
            content = head + values.astype("uint8").tobytes()
            files[f"{stem}.gz"] = compress(content, stem, TIMES[part[:2]])
    url, info = mnist.FashionMNIST.URL, tfds.core.download.checksums.UrlInfo
    infos = {
        url + name: info(len(content), hashlib.sha256(content).hexdigest(), name)
        for name, content in files.items()
    }
    monkeypatch.setattr(mnist.FashionMNIST, "url_infos", infos)
    monkeypatch.setattr(mnist, "_TRAIN_EXAMPLES", COUNTS["train"])
    monkeypatch.setattr(mnist, "_TEST_EXAMPLES", COUNTS["t10k"])
    return files


@pytest.fixture
def package(originals, tmp_path):
    """The folder of the package: the same contents, without names and times of the originals."""
    folder = tmp_path / "package"
    folder.mkdir()
    for name, content in originals.items():
        (folder / name).write_bytes(compress(gzip.decompress(content), "", 1591347949))
    return folder


@pytest.mark.parametrize("files", ["of the package", "originals"])
def test_prepared_from_the_package(package, originals, tmp_path, capsys, files):
    for name in originals if files == "originals" else ():
        (package / name).write_bytes(originals[name])
    arguments = ["--input", str(package), "--output", str(tmp_path / "tfds")]
    main(arguments)
    assert "prepared 12 train and 5 test images in " in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "tfds").iterdir()] == ["fashion_mnist"]
    source = {"source": "tfds", "name": "fashion_mnist", "dir": str(tmp_path / "tfds")}
    config = DataConfig(**source, test_split="test", batch_size=4, resize="squash")
    images, labels = load_data(config, 28).test.sample(5)
    content = gzip.decompress(originals["t10k-images-idx3-ubyte.gz"])
    gray = np.frombuffer(content[16:], "uint8").reshape(5, 28, 28, 1)
    order = np.argsort(labels)
    assert labels[order].tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(images[order], np.repeat(gray, 3, -1))
    with pytest.raises(ValueError, match="output: expected a folder without fashion_mnist"):
        main(arguments)


@pytest.mark.parametrize("damage", ["bytes", "missing", "not gzip"])
def test_wrong_files(package, tmp_path, damage):
    file = package / "train-labels-idx1-ubyte.gz"
    content = file.read_bytes()
    expected = "input: expected train-labels-idx1-ubyte.gz of Fashion-MNIST, of SHA-256"
    if damage == "bytes":
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "not gzip":
        file.write_bytes(gzip.decompress(content))
    else:
        file.unlink()
        expected = "input: expected a folder with train-labels-idx1-ubyte.gz. Received: '.*package'"
    with pytest.raises(ValueError, match=expected):
        main(["--input", str(package), "--output", str(tmp_path / "tfds")])
    assert not (tmp_path / "tfds").exists()
