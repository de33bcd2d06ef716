"""Fashion-MNIST of a Debian package for TFDS: `python -m tools.fashion_mnist --help`."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from zoo.cli.run import run_command
from zoo.cli.settings import Settings
from zoo.errors import needs_extra, printable
from zoo.fields import LocalPath, OutputFolder

NAME = "fashion_mnist"
# Debian recompressed the files without names and times. Restoring both gives the original bytes.
# Times are in seconds since 1970, by the first two letters of the name: train and t10k.
TIMES = {"tr": 1504176606, "t1": 1504176627}
MAGIC, NAMED = b"\x1f\x8b\x08", 8  # first bytes of a gzip file, and the flag of one with a name


class FashionMnistConfig(Settings):
    """Prepares Fashion-MNIST for TensorFlow Datasets without network.

    Reads the four IDX files of Debian's package dataset-fashion-mnist, or the authors' files.
    TensorFlow Datasets checks size and SHA-256 of every file. Example:

      apt install dataset-fashion-mnist
      python -m tools.fashion_mnist
      python -m zoo.train --config lambda_resnet14_fashion_mnist
    """

    input: LocalPath = Path("/usr/share/datasets/fashion-mnist")
    """Folder of train-images-idx3-ubyte.gz and the other three files."""
    output: OutputFolder | None = None
    """Folder of data sets, for --data.dir; None: ~/tensorflow_datasets, the default of both."""


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then prepares the data set."""
    config = FashionMnistConfig.from_command_line(arguments, "python -m tools.fashion_mnist")
    with needs_extra("train"):
        import tensorflow_datasets as tfds
    builder = tfds.builder(NAME, data_dir=config.output)
    if builder.is_prepared():
        raise ValueError(f"output: expected a folder without {NAME}. Received: {builder.data_dir}")
    infos = builder.url_infos.values()
    originals = {info.filename: original(config.input / info.filename, info) for info in infos}
    with TemporaryDirectory() as folder:  # TFDS looks here before it downloads
        for name, content in originals.items():
            Path(folder, name).write_bytes(content)
        builder.download_and_prepare(
            download_dir=folder, download_config=tfds.download.DownloadConfig(manual_dir=folder)
        )
    counts = [f"{part.num_examples:,} {name}" for name, part in builder.info.splits.items()]
    print(f"prepared {' and '.join(counts)} images in {printable(builder.data_dir)}")


def original(path: Path, info: Any) -> bytes:
    """Reads a gzip file, restores its original header, and checks its size and SHA-256."""
    content = path.read_bytes() if path.is_file() else b""
    if content.startswith(MAGIC) and content[3:4] == b"\0":
        time = TIMES[path.name[:2]].to_bytes(4, "little")
        name = path.stem.encode() + b"\0"
        content = MAGIC + bytes([NAMED]) + time + content[8:10] + name + content[10:]
    received = len(content), hashlib.sha256(content).hexdigest()
    if received != (info.size, info.checksum):
        raise ValueError(
            f"input: expected {path.name} of Fashion-MNIST, of SHA-256 {info.checksum} with the "
            f"header of the original. Received: {str(path)!r}, {received[0]} bytes, {received[1]}"
            if content
            else f"input: expected a folder with {path.name}. Received: {str(path.parent)!r}"
        )
    return content


if __name__ == "__main__":
    run_command(main)
