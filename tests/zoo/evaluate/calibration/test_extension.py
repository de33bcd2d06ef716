"""Calibration: temperatures as computed by hand; its setting, tables, figures and files."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.special import log_softmax

from zoo.evaluate.calibration import plots
from zoo.evaluate.calibration.extension import CalibrationExtension
from zoo.evaluate.calibration.fit import SEED, calibrate, fit_temperature, scaled
from zoo.evaluate.classification import EvaluateConfig, run
from zoo.evaluate.metrics import Evaluation
from zoo.evaluate.report import ClassifierReport

TFDS = "--model lambda_resnet14 --weights imagenet --data.source tfds --data.name"
RUN = Path(__file__).parents[3] / "fixtures" / "classifier_run"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("imagenet2012_real --calibrate true", "such as imagenet2012. Received: data"),
        ("imagenet2012_corrupted --calibrate true", "calibrate: expected one set of"),
        ("imagenet2012 --calibrate 1.5", "calibrate: "),
    ],
)
def test_images_that_cannot_calibrate(arguments, message):
    with pytest.raises(ValueError, match=message):
        EvaluateConfig.from_command_line(f"{TFDS} {arguments}".split())


def test_one_set_of_corrupted_images_can_calibrate():
    arguments = f"{TFDS} imagenet2012_corrupted/fog_1 --calibrate true".split()
    assert EvaluateConfig.from_command_line(arguments).calibrate


def evaluation(log_probabilities: np.ndarray | None) -> Evaluation:
    labels, predicted = np.arange(40) % 4, np.arange(40) % 3
    confidence = np.where(labels == predicted, 0.9, 0.6)
    return Evaluation(labels, predicted, confidence, [*"abcd"], 0.9, 0.5, 1, (), log_probabilities)


def test_tables_and_files(tmp_path, capsys):
    logs = np.log(np.random.default_rng(0).dirichlet(np.ones(4), 40))
    drawn = {}
    for outputs, names in (
        (logs, ("calibration", "confusion", "reliability", "thresholds")),
        (None, ("confusion", "reliability", "thresholds")),  # and calibration.png is removed
    ):
        result = evaluation(outputs)
        error = result.calibration_error
        report = ClassifierReport(result, {"calibration": CalibrationExtension().add(result)})
        report.write("title", {}, tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {
            "evaluation.json",
            *(f"{name}.png" for name in names),
        }
        for name in names:
            with Image.open(tmp_path / f"{name}.png") as picture:
                assert min(picture.size) > 200
                drawn[name, outputs is None] = np.array(picture)
        written = json.loads((tmp_path / "evaluation.json").read_text("utf-8"))
        fit = None if outputs is None else calibrate(outputs, np.arange(40) % 4).as_json()
        assert written["calibration"] == fit
        assert written["calibration_error"] == pytest.approx(error)
        report.print_tables("title")
        printed = capsys.readouterr().out
        assert ("on the other half" in printed) == (outputs is not None)
    both, one = drawn["thresholds", False], drawn["thresholds", True]
    assert both.shape != one.shape or (both != one).any()  # of calibrated scores, too


def test_reliability_before_and_after_calibration(tmp_path, figures):
    bins = np.array([0, 4]), np.array([0, 0.8]), np.array([0, 0.75])
    for before in (None, bins):
        plots.plot_reliability(bins, "title", tmp_path / "a.png", before)
    lines = [[line.get_label() for line in figure.axes[0].lines] for figure in figures]
    assert lines[0] == ["perfect calibration", "accuracy"]
    assert lines[1] == ["perfect calibration", "before", "accuracy, calibrated"]
    for figure in figures:
        upper, lower = figure.axes
        for line in upper.lines[1:]:
            np.testing.assert_allclose(line.get_xydata(), [[0.8, 0.75]])
        (bar,) = upper.patches
        assert (bar.get_x(), bar.get_width(), bar.get_height()) == (0.5, 0.5, 0.75)
        assert [bar.get_height() for bar in lower.containers[0]] == [0, 4]


@pytest.mark.slow
def test_the_command_fits_a_temperature(tmp_path, capsys):
    arguments = ["--run", str(RUN), "--output", str(tmp_path)]
    for value in ("true", "false"):
        run(EvaluateConfig.from_command_line([*arguments, "--calibrate", value]))
        fitted = json.loads((tmp_path / "evaluation.json").read_text("utf-8"))["calibration"]
        assert (fitted is not None) == (value == "true")
        assert ("Temperature" in capsys.readouterr().out) == (value == "true")


def overconfident(count: int, factor: float) -> tuple[np.ndarray, np.ndarray]:
    """Log probabilities of logits times a factor, and labels drawn from those without it."""
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (count, 5))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(-1)
    return log_softmax(factor * logits, -1).astype("float32"), labels


def test_scaled_log_probabilities_are_those_of_scaled_logits():
    logits = np.random.default_rng(0).normal(0, 3, (7, 4))
    found = scaled(log_softmax(logits, -1), 3)
    np.testing.assert_allclose(found, log_softmax(logits / 3, -1), atol=1e-12)


@pytest.mark.parametrize("factor", [0.4, 1, 3])
def test_the_temperature_undoes_the_factor(factor):
    assert fit_temperature(*overconfident(20_000, factor)) == pytest.approx(factor, rel=0.05)


def test_two_classes_and_errors_of_a_third_by_hand():
    """Every logit is 4 for the first class; a third is of the other: logit(2/3) = log 2 = 4 / T."""
    logs = log_softmax(np.tile([4.0, 0.0], (300, 1)), -1)
    labels = np.arange(300) % 3 // 2
    assert fit_temperature(logs, labels) == pytest.approx(4 / np.log(2), rel=1e-4)


def test_calibration_is_measured_on_the_other_half():
    logs, labels = overconfident(4001, 3)
    order = np.random.default_rng(SEED).permutation(4001)
    found = calibrate(logs, labels)
    assert (found.images_fitted, found.images_measured) == (2000, 2001)
    assert found.errors_fitted == (logs.argmax(-1) != labels)[order[:2000]].sum()
    assert found.temperature == fit_temperature(logs[order[:2000]], labels[order[:2000]])
    rest, truth = logs[order[2000:]].astype("float64"), labels[order[2000:]]
    for scores, divisor in ((found.before, 1), (found.after, found.temperature)):
        expected = log_softmax(rest / divisor, -1)
        assert scores.loss == pytest.approx(-expected[np.arange(2001), truth].mean())
        np.testing.assert_allclose(scores.confidence, np.exp(expected.max(-1)))
        np.testing.assert_array_equal(scores.right, expected.argmax(-1) == truth)
    assert found.after.calibration_error < found.before.calibration_error / 3
    assert found.as_json()["after"] == {
        "loss": found.after.loss,
        "calibration_error": found.after.calibration_error,
        "thresholds": found.after.thresholds((0.9, 0.95, 0.99)),
    }


def test_without_errors_there_is_no_temperature_to_fit():
    logs = log_softmax(np.tile([2.0, 0.0], (10, 1)), -1)
    found = calibrate(logs, np.zeros(10, int))
    assert (found.temperature, found.errors_fitted) == (1, 0)
    assert found.before.loss == found.after.loss == pytest.approx(np.log(1 + np.exp(-2)))
    with pytest.raises(ValueError, match=r"^calibrate: expected two images or more. Received: 1$"):
        calibrate(logs[:1], np.zeros(1, int))
