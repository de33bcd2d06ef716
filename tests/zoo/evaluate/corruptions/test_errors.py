"""Errors on corrupted images, on small data in the layout of TFDS, and their figure."""

import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from support.imagenet_variants import logits, random_colors, run, write_network, write_set

from lambda_keras.applications.preprocessing import Preprocessing
from zoo.config import DataConfig
from zoo.evaluate.corruptions import errors
from zoo.evaluate.corruptions.errors import CorruptionErrors
from zoo.inference.classifier import Classifier
from zoo.inference.source.base import load_images
from zoo.inference.source.run import Run

DIGITS = [str(number) for number in range(10)]
KINDS = dict(list(errors.ALEXNET.items())[:2])
ERRORS = np.array([[0, 0.25], [0.5, 1]])


def test_corruption_errors_are_relative_to_those_of_alexnet(tmp_path, capsys):
    result = CorruptionErrors(KINDS, ERRORS, 16)
    relative = ERRORS.mean(1) / [0.886428, 0.894468]
    result.print_tables("title")
    printed = capsys.readouterr().out
    assert f"(mCE) {100 * relative.mean():.1f} % of AlexNet's; unnormalized 43.8 %" in printed
    rows = [line.replace("│", " ").split() for line in printed.splitlines()]
    expected = [*(100 * ERRORS[1]), 75.0, 89.4468, 100 * relative[1]]
    assert ["shot", "noise", *(f"{value:.1f}" for value in expected)] in rows
    result.write("title", {}, tmp_path)
    written = json.loads((tmp_path / "evaluation.json").read_text("utf-8"))
    assert written["mean_error"] == pytest.approx(0.4375)
    assert written["mean_corruption_error"] == pytest.approx(relative.mean())
    assert written["images"] == 16
    for row, severities, figure in zip(written["corruptions"], ERRORS, relative, strict=True):
        assert row["errors"] == severities.tolist()
        assert (row["error"], row["corruption_error"]) == pytest.approx((severities.mean(), figure))
    assert (tmp_path / "corruptions.png").stat().st_size > 10_000


def test_every_corruption_is_evaluated_at_every_severity(capsys):
    """Here on the same digits, by a network that takes each for a 0."""
    inputs = keras.Input((8, 8, 3))
    dense = keras.layers.Dense(10, "softmax", kernel_initializer="zeros")
    x = dense(keras.layers.Flatten()(inputs))
    network = Classifier("zeros", keras.Model(inputs, x), Preprocessing(8, 1), DIGITS)
    network.model.layers[-1].bias.assign(3 * np.eye(10)[0])
    load = lambda data: (network, load_images(data, network.preprocessing))  # noqa: E731
    source = SimpleNamespace(load_with_images=load)
    classifier, result = errors.measure(source, DataConfig(), "float32", KINDS, (1, 2))
    assert classifier.precision == "float32"
    assert result.images == 4 * 360
    np.testing.assert_allclose(result.errors, np.full((2, 2), 1 - 36 / 360))
    names = [f"imagenet2012_corrupted/{name}_{number}" for name in KINDS for number in (1, 2)]
    assert [line for line in capsys.readouterr().out.splitlines() if "_" in line] == names


@pytest.mark.slow
def test_corruptions(tmp_path, capsys):
    """Two corruptions at two severities, four images each; then a severity that is not there."""
    folder, model = write_network(tmp_path / "run")
    colors = random_colors(4)
    best = logits(model, colors).argmax(-1)
    for number, right in enumerate((4, 3, 2, 0)):
        labels = np.where(np.arange(4) < right, best, (best + 1) % 1000)
        pairs = zip(colors, labels.tolist(), strict=True)
        examples = [{"color": color, "label": label} for color, label in pairs]
        name = f"imagenet2012_corrupted/{list(KINDS)[number // 2]}_{number % 2 + 1}"
        write_set(tmp_path, name, examples, side=224)
    one = run(folder, tmp_path, "imagenet2012_corrupted/shot_noise_1")
    assert one["top1"] == 0.5
    config = DataConfig.model_validate(one["settings"]["data"])
    _, result = errors.measure(Run(folder), config, None, KINDS, (1, 2))
    assert (result.errors.tolist(), result.images) == (ERRORS.tolist(), 16)
    capsys.readouterr()
    with pytest.raises(ValueError, match="corrupted/gaussian_noise_3 is not prepared in"):
        run(folder, tmp_path, "imagenet2012_corrupted")
    assert "imagenet2012_corrupted" not in capsys.readouterr().out  # no work began


def test_the_corruptions_of_the_benchmark():
    import tensorflow_datasets as tfds

    known = {config.name for config in tfds.builder_cls("imagenet2012_corrupted").BUILDER_CONFIGS}
    names = {f"{name}_{severity}" for name in errors.ALEXNET for severity in range(1, 6)}
    assert names <= known
    alexnet = list(errors.ALEXNET.values())
    assert np.mean(alexnet) == pytest.approx(0.789, abs=5e-4)  # unnormalized error of AlexNet
