"""`python -m zoo.benchmark serving`: table and JSON; nothing is said about speed."""

from types import SimpleNamespace

import numpy as np
import pytest

from zoo.benchmark import serving
from zoo.benchmark.timing import Timing
from zoo.export.formats import FORMATS

PATHS = [serving.KERAS, serving.PREDICT, serving.BARE, *(form.title for form in FORMATS.values())]
ROUNDED = [f"{FORMATS[name].title} bfloat16" for name in serving.BFLOAT16]
ROUNDED += [f"{form.title} int8" for form in FORMATS.values() if "int8" in form.quantizations]


def test_percentiles_and_rates(monkeypatch):
    """Of calls that take 0 to 100 ms, of an export half as fast as the others."""
    timing = Timing(0.0, [], 1, [i / 1000 for i in range(101)])
    slower = Timing(0.0, [], 1, [2 * one for one in timing.samples])
    monkeypatch.setattr(serving, "serving_paths", lambda *_: dict.fromkeys(PATHS[:4], np.negative))
    timings = {**dict.fromkeys(PATHS[:3], timing), PATHS[3]: slower}
    monkeypatch.setattr(serving, "time_in_turn", lambda *_: timings)
    network = SimpleNamespace(name="x", model="lambda_resnet14", image_size=16, build=lambda: None)
    ((one, *_, last),) = serving.measure(network, serving.Config(batches=(2,)))
    assert (one["p50_ms"], one["p99_ms"], one["images_per_second"]) == (50, 99, 40)
    assert (last["p50_ms"], last["p99_ms"], last["images_per_second"]) == (100, 198, 20)
    assert (last["ratio_to_keras"], last["ratio_to_function"]) == (0.5, 0.5)


@pytest.mark.slow
def test_table_and_json(measure, monkeypatch):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "1")  # which the command sets
    settings = "--models lambda_resnet14@16 --batches 1,2 --threads 1 --repeats 2 --min_ms 1"
    report, printed = measure(f"serving {settings}")
    assert {"tensorflow", "onnxruntime", "openvino", "ai-edge-litert"} <= set(report["versions"])
    assert report["hardware"]["threads"] == 1
    assert [(row["batch"], row["path"]) for row in report["rows"]] == [
        (batch, path) for batch in (1, 2) for path in (*PATHS, *ROUNDED)
    ]
    for row in report["rows"]:
        assert row["path"] in printed
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["images_per_second"] == pytest.approx(1e3 * row["batch"] / row["p50_ms"])
        assert row["max_difference"] < (0.1 if row["path"] in ROUNDED else 1e-5)
        assert (row["megabytes"] is None) == (row["path"] in PATHS[:3])
        assert (row["layers_ms"] is None) == (row["path"] not in serving.BY_LAYER)
    layers = [row["layers_ms"] for row in report["rows"] if row["layers_ms"]]
    assert all(list(one.values()) == sorted(one.values(), reverse=True) for one in layers)
    assert all(one["Convolution"] > 0 for one in layers)
    by_keras, _, bare, saved_model = report["rows"][:4]
    assert by_keras["ratio_to_keras"] == bare["ratio_to_function"] == 1
    rates = [row["images_per_second"] for row in (by_keras, bare, saved_model)]
    assert saved_model["ratio_to_keras"] == pytest.approx(rates[2] / rates[0])
    assert saved_model["ratio_to_function"] == pytest.approx(rates[2] / rates[1])
