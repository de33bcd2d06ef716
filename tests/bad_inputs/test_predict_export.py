"""Bad arguments, files and folders of the commands that ask a model: predict, export and others."""

import json
import os
import socket
from pathlib import Path

import pytest
from PIL import Image
from support import commands

from zoo.config import TrainConfig
from zoo.demo import __main__ as demo
from zoo.evaluate import __main__ as evaluate
from zoo.export import __main__ as export
from zoo.predict import __main__ as predict

COMMANDS = {
    "predict": predict.main,
    "export": export.main,
    "evaluate": evaluate.main,
    "demo": demo.main,
}


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The current folder, with some of everything."""
    monkeypatch.chdir(tmp_path)
    Image.new("L", (40, 30)).save("a.jpg")
    Image.new("L", (40, 30)).save("a.png")
    jpeg, png = Path("a.jpg").read_bytes(), Path("a.png").read_bytes()
    for name, content in {
        "cut.jpg": jpeg[:-200],
        "cut.png": png[:45],
        "header.png": png[:8],
        "text.jpg": b"no image",
        "empty.jpg": b"",
        "zeros.png": bytes(999),
        "huge.png": png[:16] + b"\x7f\xff\xff\xff" * 2 + png[24:],
        "a.gif": b"GIF89a" + bytes(20),
        "script.svg.png": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        "w.weights.h5": b"no weights",
        "labels.txt": b"a\nb\n",
        "gap.txt": b"a\n\nb\n",
        "latin.txt": b"gr\xfcn\n",
        "none.txt": b"",
        "short": b"1234567\n",
        "lines": b"12345678\n12345678",
        "bell": b"12345678\x07",
        "list.yaml": b"- a\n- b\n",
        "twice.yaml": b"config: list.yaml\n",
        "tabs.yaml": b"a:\n\t- b\n",
        "bytes.yaml": b"\xff\xfe\x00",
        "unknown.yaml": b"modell: lambda_resnet14\n",
        "twice/1.jpg": b"",
    }.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(content)
    os.mkfifo("fifo.jpg")
    Path("pipes").mkdir()
    os.mkfifo("pipes/fifo.jpg")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind("socket")
    Path("folder").mkdir()
    Path("dangling").symlink_to("nothing")
    Path("loop").symlink_to("loop")
    Path("run").mkdir()
    Path("run/config.yaml").write_text(TrainConfig(output_dir=Path("run")).to_yaml())
    metrics = {"class_names": ["a", "b"], "test": {"accuracy": 0.5}}
    metrics |= {"training_images": 8, "test_images": 2}
    Path("run/metrics.json").write_text(json.dumps(metrics))
    Path("run/model.keras").write_bytes(b"no model")
    Path("damaged").mkdir()
    Path("damaged/lambda_keras.json").write_text("{}")
    Path("unfinished").mkdir()
    Path("unfinished/config.yaml").write_text(Path("run/config.yaml").read_text())
    return tmp_path


def contents() -> list[str]:
    return sorted(str(path) for path in Path().rglob("*"))


MODEL = "--model lambda_resnet14"
SOURCE = f"{MODEL} --weights w.weights.h5"
LONG = "a" * 300

# Command and its arguments, part of the message.
ROWS = [
    # Which model.
    ("predict a.jpg", "expected --run, or --model and --weights"),
    ("export", "expected --run, or --model and --weights"),
    ("demo --weights w.weights.h5", "expected --run, or --model and --weights"),
    (f"predict a.jpg {MODEL}", "of weights for lambda_resnet14: without weights it knows nothing"),
    ("predict a.jpg --model= --weights imagenet", "Received: ''"),
    ("export --model resnet_lambda --weights imagenet", "Received: 'resnet_lambda'"),
    ("export --model \x1b[2J --weights imagenet", r"Received: '\x1b[2J'"),
    ("demo --run run --model lambda_resnet14", "--run already says which model"),
    ("export --run run --labels labels.txt", "--run already says which model"),
    (f"predict a.jpg {MODEL} --weights missing.h5", "existing file. Received: 'missing.h5'"),
    (f"predict a.jpg {MODEL} --weights folder", "existing file. Received: 'folder'"),
    (f"predict a.jpg {MODEL} --weights fifo.jpg", "existing file. Received: 'fifo.jpg'"),
    (f"export {MODEL} --weights socket", "existing file. Received: 'socket'"),
    (f"export {MODEL} --weights /dev/zero", "existing file. Received: '/dev/zero'"),
    (f"export {MODEL} --weights {LONG}", "existing file. Received: 'aaa"),
    (f"evaluate {MODEL} --weights dangling", "existing file. Received: 'dangling'"),
    (f"demo {MODEL} --weights loop", "existing file. Received: 'loop'"),
    (f"predict a.jpg {SOURCE} --image_size 7", "image_size: Input should be greater than or equal"),
    (f"predict a.jpg {SOURCE} --image_size 4096", "image_size: Input should be less than or equal"),
    (f"predict a.jpg {SOURCE} --image_size 32.5", "image_size: Input should be a valid integer"),
    # Published networks.
    ("predict a.jpg --model folder", "with lambda_keras.json. Received: 'folder'"),
    ("export --model ./missing", "with lambda_keras.json. Received: './missing'"),
    ("evaluate --model unfinished", "with lambda_keras.json. Received: 'unfinished'"),
    ("demo --model hf://owner", "expected hf://OWNER/NAME or hf://OWNER/NAME@REVISION. Received"),
    ("predict a.jpg --model hf://o/n --weights w.weights.h5", "already says which weights and"),
    ("export --model hf://o/n --labels labels.txt", "already says which weights and labels"),
    ("predict a.jpg --model hf://o/n --image_size 7", "image_size: Input should be greater than"),
    ("predict a.jpg --model hf://o/n --run run", "--run already says which model"),
    ("predict a.jpg --model damaged/", "model: expected an intact lambda_keras.json. Received"),
    # Labels.
    (f"predict a.jpg {SOURCE} --labels missing.txt", "expected a text file. Received: 'missing"),
    (f"predict a.jpg {SOURCE} --labels folder", "expected a text file. Received: 'folder'"),
    (f"export {SOURCE} --labels fifo.jpg", "expected a text file. Received: 'fifo.jpg'"),
    (f"export {SOURCE} --labels /dev/zero", "expected a text file. Received: '/dev/zero'"),
    (f"export {SOURCE} --labels {LONG}", "labels: expected a path. Received: 'aaa"),
    (f"export {SOURCE} --labels gap.txt", "in every line of 'gap.txt'"),
    (f"export {SOURCE} --labels none.txt", "in every line of 'none.txt'"),
    (f"demo {SOURCE} --labels latin.txt", "expected text in UTF-8. Received: 'latin.txt'"),
    ("demo --run run --labels labels.txt", "--run already says which model"),
    # Runs.
    ("predict a.jpg --run missing", "the folder of a finished run. Received: 'missing'"),
    ("predict a.jpg --run unfinished", "the folder of a finished run. Received: 'unfinished'"),
    ("predict a.jpg --run a.jpg", "the folder of a finished run. Received: 'a.jpg'"),
    ("evaluate --run fifo.jpg", "the folder of a finished run. Received: 'fifo.jpg'"),
    ("export --run folder", "the folder of a finished run. Received: 'folder'"),
    ("export --run loop", "the folder of a finished run. Received: 'loop'"),
    (
        "export --run s3://bucket/run",
        "a path, or one in a bucket, gs://BUCKET/FOLDER. Received: 's3",
    ),
    ("predict a.jpg --run run", "run: expected an intact model. Received: run/model.keras"),
    # Images.
    ("predict --run run", "the following arguments are required: PHOTOS"),
    ("predict missing.jpg --run run", "an image or a folder. Received: 'missing.jpg'"),
    ("predict a.jpg fifo.jpg --run run", "an image or a folder. Received: 'fifo.jpg'"),
    ("predict socket --run run", "an image or a folder. Received: 'socket'"),
    ("predict /dev/zero --run run", "an image or a folder. Received: '/dev/zero'"),
    ("predict dangling --run run", "an image or a folder. Received: 'dangling'"),
    ("predict loop --run run", "an image or a folder. Received: 'loop'"),
    (f"predict {LONG}.jpg --run run", "an image or a folder. Received: 'aaa"),
    ("predict \x9b2J --run run", r"an image or a folder. Received: '\x9b2J'"),
    ("predict \x1b[2J --run run", r"and control characters. Received: '\x1b[2J'"),
    ('predict "a.jpg" --run run', "without quotation marks"),
    ("predict folder --run run", "photos: no images (.jpg, .jpeg, .png, .webp, "),
    ("predict pipes --run run", "photos: no images (.jpg, .jpeg, .png, .webp, "),
    ("predict twice --run run", "unreadable image files: twice/1.jpg (not an image of"),
    ("predict cut.jpg --run run", "unreadable image files: cut.jpg ("),
    ("predict cut.png --run run", "unreadable image files: cut.png ("),
    ("predict header.png --run run", "unreadable image files: header.png ("),
    ("predict text.jpg --run run", "unreadable image files: text.jpg (not an image of"),
    ("predict empty.jpg --run run", "unreadable image files: empty.jpg (not an image of"),
    ("predict zeros.png --run run", "unreadable image files: zeros.png (not an image of"),
    ("predict huge.png --run run", "unreadable image files: huge.png ("),
    ("predict a.gif --run run", "unreadable image files: a.gif ("),
    ("predict script.svg.png --run run", "unreadable image files: script.svg.png (not an image of"),
    # Options and outputs of zoo.predict.
    ("predict a.jpg --run run --top 0", "top: Input should be greater than or equal to 1"),
    ("predict a.jpg --run run --top 51", "top: Input should be less than or equal to 50"),
    ("predict a.jpg --run run --top many", "top: Input should be a valid integer"),
    ("predict a.jpg --run run --output a.txt", "named .png or .json. Received: 'a.txt'"),
    ("predict a.jpg --run run --output .json", "named .png or .json. Received: '.json'"),
    ("predict a.jpg --run run --output folder", "a file to write to. Received: 'folder'"),
    (
        "predict a.jpg --run run --output a.jpg/b.json",
        "to write to. Received: 'a.jpg/b.json'",
    ),
    ("predict a.png --run run --output a.png", "a.png is one of the images"),
    ("predict a.png --run run --output folder/../a.png", "is one of the images"),
    ("predict a.jpg --run run --output gs://bucket/a.json", "expected a path of this machine"),
    (
        "export --run run --output a.jpg",
        "a folder to write to. Received: 'a.jpg'",
    ),
    (
        "export --run run --output a.jpg/deeper",
        "to write to. Received: 'a.jpg/deeper'",
    ),
    ("export --run run --output loop", "output: expected "),
    ("export --run run --output dangling/deeper/../..", "output: expected "),
    ("export --run run --output /proc/exports", "a folder to write to. Received: '/proc/"),
    ("export --run run --output gs://bucket", "expected a path of this machine"),
    ("export --run run --format caffe", "format: no such format. Received: 'caffe'"),
    ("export --run run --quantize int4", "quantize: no such choice. Received: 'int4'"),
    ("export --run run --quantize float16", "float16 is for --format onnx, litert only"),
    ("export --run run --format litert --quantize int8", "expected --calibration FOLDER (images"),
    ("export --run run --format openvino --lambda_maps a", "lambda_maps is for --format onnx only"),
    ("export --run run --format litert --calibration folder", "expected --calibration FOLDER"),
    (
        "evaluate --run run --output a.jpg",
        "a folder to write to. Received: 'a.jpg'",
    ),
    (f"evaluate {SOURCE} --averaged false", "averaged: only a run has other weights"),
    # The page.
    ("demo --run run --port 0", "port: Input should be greater than or equal to 1"),
    ("demo --run run --port 65536", "port: Input should be less than or equal to 65535"),
    ("demo --run run --host=", "expected --host and --port of a free address here"),
    ("demo --run run --host 1.2.3.4.5", "expected --host and --port of a free address"),
    (f"demo --run run --host {'a' * 70}", "expected --host and --port of a free address"),
    ("demo --run run --host 0.0.0.0 --port 0", "port: Input should be greater"),
    ("demo --run run --password_file missing", "8 or more characters. Received: 'missing'"),
    ("demo --run run --password_file short", "8 or more characters. Received: 'short'"),
    ("demo --run run --password_file none.txt", "8 or more characters. Received: 'none.txt'"),
    ("demo --run run --password_file lines", "8 or more characters. Received: 'lines'"),
    ("demo --run run --password_file bell", "8 or more characters. Received: 'bell'"),
    (
        "demo --run run --password_file latin.txt",
        "8 or more characters. Received: 'latin",
    ),
    ("demo --run run --password_file fifo.jpg", "8 or more characters. Received: 'fifo.jpg'"),
    (
        "demo --run run --password_file /dev/zero",
        "8 or more characters. Received: '/dev/zero",
    ),
    # Settings.
    ("predict a.jpg --config missing.yaml", "expected a YAML file. Received: 'missing.yaml'"),
    ("predict a.jpg --config fifo.jpg", "expected a YAML file. Received: 'fifo.jpg'"),
    ("export --config /dev/zero", "expected a YAML file. Received: '/dev/zero'"),
    ("predict a.jpg --config runs/fine_tune.yaml", "not found (did you mean 'fine_tune', which"),
    (
        "predict a.jpg --config twice.yaml",
        "names no other one. Received: 'twice.yaml' with c",
    ),
    ("export --config list.yaml", "config: expected `key: value` lines in 'list.yaml'"),
    ("export --config tabs.yaml", "config: 'tabs.yaml' is not YAML of settings"),
    ("evaluate --config bytes.yaml", "config: 'bytes.yaml' is not YAML of settings"),
    ("demo --config unknown.yaml", "modell: no such setting. Received: 'modell' (did you me"),
    ("demo --run run --share true", "no such setting. Received: '--share'"),
    ("export --run run --fromat onnx", "(did you mean '--format'?)"),
]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("line", "message"), ROWS, ids=[line[:60] for line, _ in ROWS])
def test_bad_input(monkeypatch, capsys, line, message):
    command, *arguments = line.split(" ")
    before = contents()
    error = commands.fail(COMMANDS[command], monkeypatch, capsys, *arguments)
    assert message in error
    assert error[:-1].isprintable()
    assert contents() == before
