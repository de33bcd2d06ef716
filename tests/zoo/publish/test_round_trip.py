"""A run of digits, published to a folder and asked in new processes: the same to the image."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from gradio_client import Client, handle_file
from PIL import Image
from sklearn.datasets import load_digits
from support.loopback import free_port

pytestmark = [pytest.mark.very_slow, pytest.mark.one_backend]

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def command(folder: Path, name: str, *arguments: str | Path) -> str:
    result = subprocess.run(
        [sys.executable, "-m", f"zoo.{name}", *map(str, arguments)],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_digits_travel(tmp_path):
    digits = tmp_path / "photos"
    digits.mkdir()
    for i in range(20):
        Image.fromarray((load_digits().images[i] * 15).astype("uint8")).save(digits / f"{i:02}.png")
    settings = "--model.image_size 16 --training.epochs 3 --optimizer.warmup_epochs 1"
    settings += " --model.batch_norm_momentum 0.5 --training.ema 0.9 --output_dir run"
    command(tmp_path, "train", *settings.split())
    command(tmp_path, "publish", "--run", "run", "travels/digits")
    (tmp_path / "travels").rename(tmp_path / "elsewhere")
    sources = {"run": ("--run", "run"), "published": ("--model", "elsewhere/digits")}

    accuracy = json.loads((tmp_path / "run/metrics.json").read_text())["test"]["accuracy"]
    for name, source in sources.items():
        command(tmp_path, "evaluate", *source, "--output", f"{name}-evaluation")
        command(tmp_path, "predict", "photos", *source, "--top", "10", "--output", f"{name}.json")
        command(tmp_path, "export", *source, "--output", f"{name}-exports")
    found = {
        name: json.loads((tmp_path / f"{name}-evaluation/evaluation.json").read_text())
        for name in sources
    }
    assert found["run"]["top1"] == found["published"]["top1"] == pytest.approx(accuracy)
    for key in ("classes", "confusions"):
        assert found["run"][key] == found["published"][key]
    assert found["run"]["loss"] == pytest.approx(found["published"]["loss"], rel=1e-6)
    answers = [json.loads((tmp_path / f"{name}.json").read_text())["photos"] for name in sources]
    for one, other in zip(*answers, strict=True):
        assert [score["name"] for score in one["top"]] == [score["name"] for score in other["top"]]
        assert [score["probability"] for score in one["top"]] == pytest.approx(
            [score["probability"] for score in other["top"]], abs=1e-6
        )
    exported = [tmp_path / f"{name}-exports/lambda_resnet14/1" for name in sources]
    assert (exported[0] / "labels.txt").read_text() == (exported[1] / "labels.txt").read_text()
    assert "model.safetensors of folder digits" in (exported[1] / "model_card.md").read_text()

    # Training from it starts where the run ended.
    weights = "--model.weights elsewhere/digits --output_dir again --optimizer.learning_rate 1e-9"
    command(tmp_path, "train", *settings.rpartition(" --training.ema")[0].split(), *weights.split())
    again = json.loads((tmp_path / "again/metrics.json").read_text())
    assert again["history"]["accuracy"][0] > 0.3  # chance is 0.1

    port = free_port()
    with subprocess.Popen(
        [sys.executable, "-m", "zoo.demo", *sources["published"], "--port", str(port)],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            printed = []
            for line in process.stdout:
                printed.append(line)
                if line.startswith("Open "):
                    break
            else:
                pytest.fail("".join(printed))
            client = Client(f"http://127.0.0.1:{port}/", verbose=False, analytics_enabled=False)
            answer = client.predict(handle_file(digits / "00.png"), api_name="/predict")
        finally:
            process.terminate()
            process.communicate(timeout=60)
    top = answers[0][0]["top"]
    assert answer["label"] == top[0]["name"]
    assert answer["confidences"][0]["confidence"] == pytest.approx(top[0]["probability"], abs=1e-5)
