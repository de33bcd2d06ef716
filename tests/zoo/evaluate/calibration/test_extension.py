"""Calibration: temperatures as computed by hand; its setting, tables, figures and files."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from zoo.evaluate.calibration.extension import CalibrationExtension
from zoo.evaluate.calibration.fit import calibrate
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
        assert {path.stem for path in tmp_path.iterdir()} == {"evaluation", *names}
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


@pytest.mark.slow
def test_the_command_fits_a_temperature(tmp_path, capsys):
    arguments = ["--run", str(RUN), "--output", str(tmp_path)]
    for value in ("true", "false"):
        run(EvaluateConfig.from_command_line([*arguments, "--calibrate", value]))
        fitted = json.loads((tmp_path / "evaluation.json").read_text("utf-8"))["calibration"]
        assert (fitted is not None) == (value == "true")
        assert ("Temperature" in capsys.readouterr().out) == (value == "true")
