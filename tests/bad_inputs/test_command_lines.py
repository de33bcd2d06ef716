"""Command lines that are refused: command_lines.txt has each, and a part of its message."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from PIL import Image
from support import commands

from zoo.config import TrainConfig

SCRIPT = Path("tpu_configs/tpu_vm.sh").resolve()
VM = ["--name", "t", "--zone", "z"]
JAX_POD = [*VM, "--type", "v3-32", "--backend", "jax", "--dry-run"]
BUCKET = "several hosts need --output_dir gs://BUCKET/FOLDER"
RUN_BUCKET = "run: expected --output_dir gs://BUCKET/FOLDER"
TPU_VM = [
    ([], "expected a command: run, create, status"),
    (["create", "--zone", "z"], "--name: expected the name"),
    (["create", "--name", "t"], "--zone: expected a zone"),
    (["create", "--name"], "--name: expected a value"),
    (["create", "--name", "--zone", "z"], "--name: expected a value"),
    (["create", *VM, "--name", ""], "--name: expected a value"),
    (["stop", *VM, "--name", "t;ls"], "a-z, 0-9 and -. Received: t;ls"),
    (["stop", *VM, "--name", "t\nls"], "a-z, 0-9 and -. Received: t?ls"),
    (["stop", *VM, "--name", "-t"], "a-z, 0-9 and -. Received: -t"),
    (["stop", *VM, "--zone", "$(ls)"], "europe-west4-a. Received: $(ls)"),
    (["create", *VM, "--backend", "torch"], "tensorflow or jax. Received: torch"),
    (["create", *VM, "--type", "v3"], "such as v3-8. Received: v3"),
    (["create", *VM, "--type", "v3-0"], "such as v3-8. Received: v3-0"),
    (["create", *VM, "--type", "v99-8"], "such as v3-8. Received: v99-8"),
    (["run", *VM, "--type", "v4-7"], "such as v3-8. Received: v4-7"),
    (["create", *VM, "--type", "v3-08"], "such as v3-8. Received: v3-08"),
    (["create", "delete", *VM], "expected one command. Received: create and del"),
    (["resize", *VM], "expected a command or an option. Received: resize"),
    (["create", *VM, "--preemptible"], "Received: --preemptible"),
    (["delete", *VM, "--", "x"], "expected no arguments. Received: x"),
    (["train", *VM, "--dry-run"], "expected the arguments of zoo.train after --"),
    (["train", *JAX_POD, "--", "--output_dir", "runs/x"], BUCKET),
    *(
        (["run", *VM, "--dry-run", "--", "--output_dir", place], RUN_BUCKET)
        for place in ("gs://", "gs:///x", "gs://b", "gs://b/", "gs://B/x", "runs/x")
    ),
    (["train", *JAX_POD, "--", "--output_dir=gs:///x"], BUCKET),
    (["train", *JAX_POD, "--", "--config", "a.yaml"], BUCKET),
    (["create", *VM], "gcloud is not installed: https://"),
]
# Numbers of images in a folder, and files that are damaged or no images, weights or words.
MANY = [*(f"{i}.jpg" for i in range(100)), "0-2.png"]
FOLDERS = (
    "folder",
    "folder.pth",
    "many",
    "pipes",
    "twice",
    "run",
    "damaged",
    "unfinished",
    "export",
)


@pytest.fixture
def place(here, monkeypatch) -> Path:
    """The current folder, with some of everything; no TPU and no cluster."""
    for name in ("TPU_NAME", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name in FOLDERS:
        Path(name).mkdir()
    Image.new("L", (40, 30)).save("a.jpg")
    Image.new("L", (40, 30)).save("a.png")
    jpeg, png = Path("a.jpg").read_bytes(), Path("a.png").read_bytes()
    config = TrainConfig(output_dir=Path("run")).to_yaml().encode()
    metrics = {"class_names": ["a", "b"], "test": {"accuracy": 0.5}}
    metrics |= {"training_images": 8, "test_images": 2}
    text = ("file", "text.pth", "text.zip", "text.weights.h5", "text.safetensors", "w.weights.h5")
    for name, content in {
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
        "run/metrics.json": json.dumps(metrics).encode(),
        "run/model.keras": b"no model",
        "damaged/lambda_keras.json": b"{}",
        "unfinished/config.yaml": config,
        "export/model.onnx": b"damaged: what loads it says so",
        **{f"many/{name}": b"" for name in MANY},
    }.items():
        Path(name).write_bytes(content)
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


@pytest.mark.parametrize(("arguments", "part"), TPU_VM)
def test_tpu_vm(here, arguments, part):
    command, empty = ["/bin/bash", str(SCRIPT), *arguments], {"PATH": str(here)}  # without gcloud
    process = subprocess.run(command, capture_output=True, text=True, env=empty)
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("error: ")
    assert process.stderr.count("\n") == 1
    assert part in process.stderr
    assert not list(here.iterdir())
