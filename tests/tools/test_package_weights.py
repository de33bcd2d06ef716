"""Weights of runs in a copy of the package: file, card and row."""

import hashlib
from pathlib import Path

import keras
import pytest
from support import networks

from lambda_keras.applications import LambdaResNet14
from tools import package_weights as module
from tools.package_weights import main
from zoo import run_folder
from zoo.config import TrainConfig
from zoo.registry import create_model

FILE = "lambda_keras/weights/lambda_resnet14_fashion_mnist"
SPECS = "lambda_keras/models/specs.py"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A network that was not trained, as runs save it."""
    keras.utils.set_random_seed(1)
    model = create_model("lambda_resnet14", classes=10, input_shape=(28, 28, 3))
    path = tmp_path_factory.mktemp("saved") / run_folder.MODEL
    model.save(path)
    return path


@pytest.fixture
def runs(saved, tmp_path):
    """Finished runs of two seeds, and a checkout."""
    for seed, accuracy in (4, 0.93456), (5, 0.92):
        model = {"name": "lambda_resnet14", "image_size": 28}
        data = {"source": "tfds", "name": "fashion_mnist", "resize": "squash"}
        training, folder = {"seed": seed, "epochs": 30}, tmp_path / f"run{seed}"
        settings = {"model": model, "data": data, "training": training}
        run_folder.start(TrainConfig(output_dir=folder, **settings))
        (folder / run_folder.MODEL).write_bytes(saved.read_bytes())
        results = {"class_names": list("abcdefghij"), "test": {"accuracy": accuracy}}
        run_folder.write_metrics(folder, {**results, "test_images": 100, "training_images": 600})
    specs = tmp_path / SPECS
    specs.parent.mkdir(parents=True)
    specs.write_bytes((module.ROOT / SPECS).read_bytes())
    return [str(tmp_path / "run4"), str(tmp_path / "run5")]


def test_file_card_and_row(runs, saved, tmp_path, capsys):
    main([*runs, "--root", str(tmp_path)])
    path = tmp_path / f"{FILE}.safetensors"
    assert "bytes), its card and its row\n" in capsys.readouterr().out
    model, expected = LambdaResNet14(classes=10, weights=path), keras.models.load_model(saved)
    networks.assert_same(model, expected)
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    card = Path(f"{tmp_path}/{FILE}.md").read_text("utf-8")
    for text in (
        f"| `{path.name}`, the first seed (4), {path.stat().st_size:,} bytes, float32 |",
        f"| SHA-256 | `{checksum}` |",
        "93.46 (seed 4), 92.00 (seed 5) % of 100 images, after the last epoch, in float32 |",
        "--config lambda_resnet14_fashion_mnist`: 600 images, 30 epochs, ",
        "| Classes | a, b, c, d, e, f, g, h, i, j |",
    ):
        assert text in card
    main([runs[0], "--root", str(tmp_path)])  # Other seeds change the card alone.
    assert hashlib.sha256(path.read_bytes()).hexdigest() == checksum
    before = (module.ROOT / SPECS).read_text("utf-8").splitlines()
    after = (tmp_path / SPECS).read_text("utf-8").splitlines()
    changed = [one for one, other in zip(after, before, strict=True) if one != other]
    row = f'"lambda_keras.weights", 93.46, 28, 1.0, "{path.name}",'
    assert [one.strip() for one in changed] == [row, f'checksum="{checksum}",']


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "lambda_resnet26t"}, "with a row of packaged weights.* lambda_resnet26t on"),
        ({"overrides": {"filters": 8}}, "as it is there. Received: .*overrides={'filters': 8}"),
        ({"image_size": 32}, r"runs: expected settings that differ in the seed\. Received: \[4, 5"),
    ],
)
def test_wrong_runs(runs, tmp_path, change, message):
    config = run_folder.load_config(Path(runs[0]))
    model = {**config.model.model_dump(), **change}
    run_folder.save_config(TrainConfig.model_validate({**config.model_dump(), "model": model}))
    with pytest.raises(ValueError, match=message):
        main([*runs, "--root", str(tmp_path)])
    with pytest.raises(ValueError, match=r"differ in the seed\. Received: \[5, 5\]"):
        main([runs[1], runs[1], "--root", str(tmp_path)])
    assert not (tmp_path / "lambda_keras" / "weights").exists()
    assert (tmp_path / SPECS).read_bytes() == (module.ROOT / SPECS).read_bytes()
