"""The settings of an export."""

import subprocess
import sys
from pathlib import Path

import pytest

from zoo.cli.run import run_command
from zoo.export import __main__ as export

SOURCE = "--model lambda_resnet14 --weights w.weights.h5"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "expected --run, or --model and --weights"),
        ("--model lambda_resnet14", "expected --weights imagenet, or a file of weights"),
        ("--run a --model lambda_resnet14", "--run already says which model"),
        ("--run a --labels labels.txt", "--run already says which model. Received: ['labels']"),
        ("--model lambda_resnet15 --weights imagenet", "did you mean 'lambda_resnet1"),
        ("--model lambda_resnet14 --weights w", "an existing file. Received: 'w'"),
        (f"{SOURCE} --labels none.txt", "labels: expected a text file. Received: 'none.txt'"),
        (f"{SOURCE} --format tflite", "format: no such format. Received: 'tflite'"),
        (f"{SOURCE} --quantize float16", "quantize: float16 is for --format onnx, litert only"),
        (
            f"{SOURCE} --format litert --quantize int8",
            "expected --calibration FOLDER (images like those",
        ),
        (
            f"{SOURCE} --format litert --calibration .",
            "expected --calibration FOLDER (images like those",
        ),
        (
            f"{SOURCE} --format litert --quantize int8 --calibration none",
            "expected an image or a folder. Received: 'none'",
        ),
        (f"{SOURCE} --lambda_maps c5", "lambda_maps is for --format onnx only"),
        (f"{SOURCE} --layout nchw", "layout is for --format onnx only"),
        (f"{SOURCE} --batch_size 1", "batch_size is for --format onnx, litert, openvino only"),
        (f"{SOURCE} --format onnx --batch_size 0", "batch_size: Input should be greater than or"),
        (f"{SOURCE} --format onnx --io_type int8", "io_type is for --format litert only"),
        (f"{SOURCE} --format litert --io_type int8", "expected --quantize int8 with it"),
        (
            f"{SOURCE} --format litert --default_signature image_bytes",
            "default_signature is for --format saved_model only",
        ),
        ("--run nowhere", "expected the folder of a finished run. Received: 'nowhere'"),
    ],
)
def test_bad_arguments(monkeypatch, tmp_path, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("w.weights.h5").touch()
    Path("labels.txt").write_text("a\n")
    monkeypatch.setattr("sys.argv", ["export", *arguments.split()])
    with pytest.raises(SystemExit) as caught:
        run_command(export.main)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir() if path.name != "labels.txt"] == [
        "w.weights.h5"
    ]


def test_help_does_not_wait_for_keras():
    script = (
        "import sys; from zoo.export import __main__ as export\n"
        "try: export.main(['--help'])\n"
        "except SystemExit: sys.exit('keras' in sys.modules)"
    )
    root = Path(export.__file__).parents[2]
    result = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True)
    assert result.returncode == 0
    for setting in ("--model", "--weights", "--run", "--labels", "--format", "--calibration"):
        assert setting in result.stdout.decode()
