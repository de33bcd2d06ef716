"""`python -m zoo.benchmark serving`: table and JSON; nothing is said about speed."""

import json

import numpy as np
import pytest

from zoo.benchmark import __main__ as command
from zoo.benchmark import serving

PATHS = [serving.PREDICT, serving.BARE, *serving.FORMATS.values()]


def test_table_and_json(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "1")  # which the command sets
    output = tmp_path / "serving.json"
    settings = "--models lambda_resnet14@16 --batches 1,2 --threads 1 --repeats 2 --min_ms 1"
    command.main(["serving", *settings.split(), "--output", str(output)])
    printed = capsys.readouterr().out
    report = json.loads(output.read_text())
    assert {"tensorflow", "onnxruntime", "openvino", "ai-edge-litert"} <= set(report["versions"])
    assert report["hardware"]["threads"] == 1
    assert [(row["batch"], row["path"]) for row in report["rows"]] == [
        (batch, path) for batch in (1, 2) for path in PATHS
    ]
    for row in report["rows"]:
        assert row["path"] in printed
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["images_per_second"] == pytest.approx(1e3 * row["batch"] / row["p50_ms"])
        assert row["max_difference"] < 1e-5
        assert (row["megabytes"] is None) == (row["path"] in PATHS[:2])
    predict, bare, saved_model = report["rows"][:3]
    assert predict["ratio_to_predict"] == bare["ratio_to_function"] == 1
    rates = [row["images_per_second"] for row in (predict, bare, saved_model)]
    assert saved_model["ratio_to_predict"] == pytest.approx(rates[2] / rates[0])
    assert saved_model["ratio_to_function"] == pytest.approx(rates[2] / rates[1])


def test_first_call_of_a_turn_is_not_counted(monkeypatch):
    durations = iter([9.0, 0.5, 9.0, 0.25])
    now = [0.0]
    monkeypatch.setattr(serving.time, "perf_counter", lambda: now[0])

    def call():
        now[0] += next(durations)

    calls = serving.Calls(call)
    calls(1)
    calls(1)
    assert calls.seconds == [0.5, 0.25]


def test_a_path_that_fails_is_named():
    def fails(images):
        raise MemoryError("too large")

    config = serving.ServingConfig(repeats=1, min_ms=1)
    answers = {serving.PREDICT: lambda images: images, serving.BARE: fails}
    with pytest.raises(RuntimeError, match=r"tf\.function fails: MemoryError: too large"):
        serving.time_calls(answers, np.zeros((1, 2)), config)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--models lambda_resnet15", "models: expected the name.*did you mean 'lambda_resnet1"),
        ("--models keras.resnet50", "expected networks of the zoo"),
        ("--models lambda_resnet14,lambda_resnet14", "each once"),
        ("--batches 0", "batches"),
        ("--batches 1,1", "each once"),
        ("--threads 0", "threads"),
        ("--output table.txt", r"ends in \.json"),
    ],
)
def test_wrong_settings_are_one_line(arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        command.main(["serving", *arguments.split()])
    assert "\n" not in str(caught.value)
