"""Command lines that are refused: each with a part of its message.

They are in command_lines.txt, and those of tpu_vm.sh in tpu_vm.txt.
"""

import os
import subprocess
from pathlib import Path

import pytest
from PIL import Image
from support import commands

from zoo.config import TrainConfig

SCRIPT = Path("tpu_configs/tpu_vm.sh").resolve()
# Enough images for several grids: `--output 0.png` names the second one 0-2.png.
MANY = [*(f"{i}.jpg" for i in range(100)), "0-2.png"]


@pytest.fixture
def place(here, monkeypatch) -> Path:
    """The current folder, with some of everything; no TPU and no cluster."""
    for name in ("TPU_NAME", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name in ("folder.pth", "pipes"):
        Path(name).mkdir()
    Image.new("L", (40, 30)).save("a.jpg")
    Image.new("L", (40, 30)).save("a.png")
    jpeg, png = Path("a.jpg").read_bytes(), Path("a.png").read_bytes()
    config = TrainConfig(output_dir=Path("run")).to_yaml()
    metrics = {"class_names": ["a", "b"], "test": {"accuracy": 0.5}}
    metrics |= {"training_images": 8, "test_images": 2}
    text = ("file", "text.pth", "text.zip", "text.weights.h5", "text.safetensors", "w.weights.h5")
    files = {
        **dict.fromkeys(text, b"text"),
        "folder/thesis.tex": b"",
        "photo.png": png,
        "cut.jpg": jpeg[:-200],
        "cut.png": png[:45],
        "header.png": png[:8],
        "zeros.png": bytes(999),
        "huge.png": png[:16] + b"\x7f\xff\xff\xff" * 2 + png[24:],
        "a.gif": b"GIF89a" + bytes(20),
        "labels.txt": b"a\nb\n",
        "gap.txt": b"a\n\nb\n",
        "latin.txt": b"gr\xfcn\n",
        "none.txt": b"",
        "short": b"1234567\n",
        "lines": b"12345678\n12345678",
        "bell": b"12345678\x07",
        "twice/1.jpg": b"",
        "run/config.yaml": config,
        "run/metrics.json": metrics,
        "run/model.keras": b"no model",
        "damaged/lambda_keras.json": b"{}",
        "unfinished/config.yaml": config,
        "export/model.onnx": b"damaged: what loads it says so",
        **{f"many/{name}": b"" for name in MANY},
    }
    commands.write(files)
    for name in ("fifo.jpg", "pipes/fifo.jpg"):
        os.mkfifo(name)
    Path("loop").symlink_to("loop")
    Path("dangling").symlink_to("nowhere")
    return here


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("line", "message"), commands.present(commands.lines("command_lines.txt")))
def test_command_line(line, message, capsys):
    verb, *arguments = commands.words(line)
    assert message in commands.refuse(verb, capsys, *arguments)


@pytest.mark.parametrize(("line", "message"), commands.lines("tpu_vm.txt"))
def test_tpu_vm(here, line, message):
    command = ["/bin/bash", str(SCRIPT), *commands.words(line)]
    empty = {"PATH": str(here)}  # without gcloud
    process = subprocess.run(command, capture_output=True, text=True, env=empty)
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("error: ")
    assert process.stderr.count("\n") == 1
    assert message in process.stderr
    assert not list(here.iterdir())
