"""Bad arguments, files and folders of the commands that ask a model: predict, export and others."""

import json
import os
from pathlib import Path

import pytest
from PIL import Image
from support import commands

from zoo.config import TrainConfig


@pytest.fixture
def here(here) -> Path:
    """The current folder, with some of everything."""
    Image.new("L", (40, 30)).save("a.jpg")
    Image.new("L", (40, 30)).save("a.png")
    jpeg, png = Path("a.jpg").read_bytes(), Path("a.png").read_bytes()
    for name, content in {
        "cut.jpg": jpeg[:-200],
        "cut.png": png[:45],
        "header.png": png[:8],
        "zeros.png": bytes(999),
        "huge.png": png[:16] + b"\x7f\xff\xff\xff" * 2 + png[24:],
        "a.gif": b"GIF89a" + bytes(20),
        "w.weights.h5": b"no weights",
        "labels.txt": b"a\nb\n",
        "gap.txt": b"a\n\nb\n",
        "latin.txt": b"gr\xfcn\n",
        "none.txt": b"",
        "short": b"1234567\n",
        "lines": b"12345678\n12345678",
        "bell": b"12345678\x07",
        "twice/1.jpg": b"",
    }.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(content)
    os.mkfifo("fifo.jpg")
    Path("pipes").mkdir()
    os.mkfifo("pipes/fifo.jpg")
    Path("folder").mkdir()
    Path("loop").symlink_to("loop")
    Path("many").mkdir()
    for i in range(100):
        Path(f"many/{i}.jpg").touch()
    Path("many/0-2.png").touch()
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
    return here


MODEL = "--model lambda_resnet14"
SOURCE = f"{MODEL} --weights w.weights.h5"
LONG, LITERT = "a" * 300, "--run run --format litert"

# Command and its arguments, part of the message.
ROWS = [
    # Which model.
    ("predict a.jpg", "expected --run, or --model and --weights"),
    ("demo --weights w.weights.h5", "expected --run, or --model and --weights"),
    (f"predict a.jpg {MODEL}", "of weights for lambda_resnet14: without weights it knows nothing"),
    ("export --model \x1b[2J --weights imagenet", r"Received: '\x1b[2J'"),
    ("evaluate --model lambda_resnet15 --weights imagenet", "did you mean 'lambda_resnet1"),
    ("demo --run run --model lambda_resnet14", "--run already says which model"),
    ("export --run run --weights imagenet", "which model. Received: ['weights']"),
    (f"predict a.jpg {MODEL} --weights missing.h5", "existing file. Received: 'missing.h5'"),
    (f"export {MODEL} --weights {LONG}", "existing file. Received: 'aaa"),
    (f"evaluate {SOURCE}", "expected an intact HDF5 weights file"),
    (f"predict a.jpg {SOURCE} --image_size 7", "image_size: Input should be greater than or equal"),
    (f"predict a.jpg {SOURCE} --image_size 2049", "less than or equal to 2048"),
    # Published networks.
    ("predict a.jpg --model folder", "with lambda_keras.json. Received: 'folder'"),
    ("demo --model hf://owner", "expected hf://OWNER/NAME or hf://OWNER/NAME@REVISION. Received"),
    ("predict a.jpg --model hf://o/n --weights w.weights.h5", "already says which weights and"),
    ("export --model hf://o/n --labels labels.txt", "already says which weights and labels"),
    ("predict a.jpg --model hf://o/n --run run", "--run already says which model"),
    ("predict a.jpg --model damaged/", "model: expected an intact lambda_keras.json. Received"),
    # Labels.
    (f"predict a.jpg {SOURCE} --labels missing.txt", "expected a text file. Received: 'missing"),
    (f"export {SOURCE} --labels fifo.jpg", "expected a text file. Received: 'fifo.jpg'"),
    (f"export {SOURCE} --labels gap.txt", "in every line of 'gap.txt'"),
    (f"export {SOURCE} --labels none.txt", "in every line of 'none.txt'"),
    (f"demo {SOURCE} --labels latin.txt", "expected text in UTF-8. Received: 'latin.txt'"),
    ("demo --run run --labels labels.txt", "--run already says which model. Received: ['labels']"),
    # Runs.
    ("evaluate --run nowhere", "the folder of a finished run. Received: 'nowhere'"),
    ("predict a.jpg --run unfinished", "the folder of a finished run. Received: 'unfinished'"),
    (
        "export --run s3://bucket/run",
        "a path, or one in a bucket, gs://BUCKET/FOLDER. Received: 's3",
    ),
    ("predict a.jpg --run run", "run: expected an intact model. Received: run/model.keras"),
    # Images.
    ("predict --run run", "the following arguments are required: PHOTOS"),
    ("predict a.jpg fifo.jpg --run run", "an image or a folder. Received: 'fifo.jpg'"),
    (f"predict {LONG}.jpg --run run", "an image or a folder. Received: 'aaa"),
    ("predict \x9b2J --run run", r"an image or a folder. Received: '\x9b2J'"),
    ('predict "a.jpg" --run run', "without quotation marks"),
    ("predict pipes --run run", "photos: no images (.jpg, .jpeg, .png, .webp, "),
    ("predict twice --run run", "unreadable image files: twice/1.jpg (not an image of"),
    *(
        (f"predict {name} --run run", f"unreadable image files: {name} (")
        for name in ("cut.jpg", "cut.png", "header.png", "zeros.png", "huge.png", "a.gif")
    ),
    # Outputs.
    ("predict a.jpg --run run --top 0", "top: Input should be greater than or equal to 1"),
    ("predict a.jpg --run run --top 51", "top: Input should be less than or equal to 50"),
    ("predict a.jpg --run run --output .json", "named .png or .json. Received: '.json'"),
    ("predict a.jpg --run run --output a.jpg/b.json", "to write to. Received: 'a.jpg/b.json'"),
    ("predict a.png --run run --output folder/../a.png", "is one of the images"),
    ("predict many --run run --output many/0.png", "many/0-2.png is one of the images"),
    ("predict a.jpg --run run --output gs://bucket/a.json", "expected a path of this machine"),
    ("export --run run --output a.jpg/deeper", "a folder to write to. Received: 'a.jpg/deeper'"),
    ("export --run run --output loop", "output: expected "),
    ("evaluate --run run --output a.jpg", "a folder to write to. Received: 'a.jpg'"),
    (f"evaluate {SOURCE} --averaged false", "averaged: only a run has other weights"),
    # Options of zoo.export.
    ("export --run run --format caffe", "format: no such format. Received: 'caffe'"),
    ("export --run run --quantize float16", "float16 is for --format onnx, litert only"),
    (
        "export --run run --quantize int8 --calibration a.jpg",
        "int8 is for --format onnx, litert, openvino only",
    ),
    *(
        (f"export --run run --format {name} --quantize int8 --calibration {files}", message)
        for name in ("onnx", "openvino")
        for files, message in (
            ("folder", "calibration: no images (.jpg, .jpeg, .png, .webp, "),
            ("a.jpg", "calibration: expected 10 or more images. Received: 1 in 'a.jpg'"),
            ("no", "calibration: expected an image or a folder. Received: 'no'"),
        )
    ),
    (f"export {LITERT} --quantize int8", "expected --calibration FOLDER (images like those"),
    (f"export {LITERT} --calibration folder", "expected --calibration FOLDER (images like those"),
    (f"export {LITERT} --quantize int8 --calibration no", "an image or a folder. Received: 'no'"),
    (f"export {LITERT} --lambda_maps a", "lambda_maps is for --format onnx only"),
    (f"export {LITERT} --layout nchw", "layout is for --format onnx only"),
    ("export --run run --batch_size 1", "batch_size is for --format onnx, litert, openvino only"),
    (
        "export --run run --format onnx --batch_size 0",
        "batch_size: Input should be greater",
    ),
    ("export --run run --format onnx --io_type int8", "io_type is for --format litert only"),
    (f"export {LITERT} --io_type int8", "expected --quantize int8 with it"),
    (f"export {LITERT} --default_signature image_bytes", "is for --format saved_model only"),
    # The page.
    ("demo --run run --port 0", "port: Input should be greater than or equal to 1"),
    ("demo --run run --host=", "host: String should have at least 1 character"),
    ("demo --run run --host 192.0.2.1", "expected --host and --port of a free address"),
    ("demo --run run --host 0.0.0.0", "expected --password_file with a --host that others can"),
    ("demo --run run --url hub.example.org", "url: expected http(s)://HOST/PATH of a proxy"),
    ("demo --run run --url https://*/x", "url: expected http(s)://HOST/PATH of a proxy"),
    ("demo --run run --url http://a.example/?x=1", "url: expected http(s)://HOST/PATH of a proxy"),
    *(
        (f"demo --run run --password_file {name}", f"8 or more characters. Received: '{name}'")
        for name in ("missing", "short", "none.txt", "lines", "bell", "latin.txt", "fifo.jpg")
    ),
    # Settings.
    ("export --run run --fromat onnx", "(did you mean '--format'?)"),
    ("demo --run run --share true", "no such setting. Received: '--share'"),
]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("line", "message"), ROWS, ids=[line[:60] for line, _ in ROWS])
def test_bad_input(capsys, line, message):
    assert message in commands.refuse(line, capsys)
