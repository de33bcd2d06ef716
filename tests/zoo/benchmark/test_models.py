"""`python -m zoo.benchmark models`: table and JSON; nothing is said about speed."""

import pytest
from keras import ops

from zoo.benchmark import models
from zoo.benchmark.models import MODES, ZooNetwork, parse
from zoo.measurements import TRAINING


@pytest.mark.needs("oneDNN")
def test_tables_and_json(tiny_networks, measure):
    settings = "--models lambda_resnet14@32,keras.MobileNet@32 --batch 2 --repeats 2 --min_ms 0.1"
    report, printed = measure(f"models {settings} --memory true")
    assert report["hardware"]["threads"] >= 1
    assert {*MODES, "ratio", "ms"} <= set(report["conventions"])
    ours, theirs = report["rows"]
    assert (ours["entry"], ours["parameters"]) == ("lambda_resnet14@32", 5_084)
    assert (theirs["entry"], theirs["image_size"]) == ("keras.MobileNet@32", 32)
    for mode in MODES:
        assert ours[mode]["ratio"] == 1
        speeds = [row[mode]["images_per_second"] for row in (ours, theirs)]
        assert theirs[mode]["ratio"] == pytest.approx(speeds[1] / speeds[0])
        for row in (ours, theirs):
            assert row["entry"] in printed
            assert row[mode]["reason"] is None
            assert len(row[mode]["rounds_ms"]) == 2
            assert row[mode]["images_per_second"] == pytest.approx(2e3 / row[mode]["ms"])
            assert row[mode]["memory_method"]


def test_two_precisions(tiny_networks, measure):
    settings = "--models lambda_resnet14@32 --batch 1 --repeats 1 --min_ms 0.1 --modes forward"
    report, _ = measure(f"models {settings} --dtype float32,mixed_bfloat16")
    rows = report["rows"]
    names = [f"lambda_resnet14@32 {dtype}" for dtype in ("float32", "mixed_bfloat16")]
    assert [row["entry"] for row in rows] == names
    assert [row["forward"]["ratio"] for row in rows] == [1, 1]  # to the first of its own precision


def test_what_was_not_measured_has_no_ratio():
    networks = [parse("lambda_resnet14@32", 8), parse("lambda_resnet14@32x4", 8)]
    figures = {"lambda_resnet14@32": {"ms": None}, "lambda_resnet14@32x4": {"ms": 4.0}}
    models.compare(networks, figures)
    missing, measured = figures.values()
    assert missing == dict.fromkeys(["ms", "images_per_second", "seconds_per_1024", "ratio"])
    rates = {"images_per_second": 1000, "seconds_per_1024": 1.024}
    assert measured == {"ms": 4.0, **rates, "ratio": None}


def test_defaults_are_the_sizes_of_published_accuracies():
    assert [parse(text).image_size for text in models.Config().models] == [160, 240, 192, 300]


class ResourceExhaustedError(Exception):
    """TensorFlow's; the backends' own take ten seconds to come."""


def exhausted(*_):
    raise ResourceExhaustedError("OOM when allocating tensor with shape[35184372088832]")


def test_backends_say_so_when_out_of_memory():
    for text in ("ResourceExhaustedError: OOM", "XlaRuntimeError: RESOURCE_EXHAUSTED: Failed"):
        assert models.OUT_OF_MEMORY.search(text)
    of_torch = "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried"
    for text in (of_torch, "OutOfMemoryError: CUDA out of memory.", "MemoryError: one tensor"):
        assert models.OUT_OF_MEMORY.search(text)
    assert not models.OUT_OF_MEMORY.search("InvalidArgumentError: cannot reshape")


def test_batches_are_halved_until_they_fit(tiny_networks, monkeypatch, measure):
    """Training of the first network is out of the backend's memory with more than two images."""
    step = ZooNetwork.step

    def limited(self, mode, backend):
        if self.model == "lambda_resnet14" and mode == TRAINING and self.batch > 2:
            exhausted()
        return step(self, mode, backend)

    monkeypatch.setattr(ZooNetwork, "step", limited)
    settings = "--models lambda_resnet14@32,resnet50@32 --batch 8 --repeats 1 --min_ms 0.1"
    report, printed = measure(f"models {settings} --halve true")
    rows = report["rows"]
    modes = [(row["entry"], row["batch"], [mode for mode in MODES if mode in row]) for row in rows]
    assert modes == [
        ("lambda_resnet14@32", 8, [*MODES]),
        ("resnet50@32", 8, [*MODES]),
        ("lambda_resnet14@32", 4, [TRAINING]),
        ("lambda_resnet14@32", 2, [TRAINING]),
    ]
    assert [row[TRAINING]["ms"] is None for row in rows] == [True, False, True, False]
    last, other = rows[3][TRAINING], rows[1][TRAINING]
    assert last["seconds_per_1024"] == pytest.approx(1024 / 2 * last["ms"] / 1e3)
    assert other["ratio"] == pytest.approx(last["seconds_per_1024"] / other["seconds_per_1024"])
    assert "seconds per 1024" in printed


@pytest.mark.parametrize(
    ("step", "tried"), [(exhausted, 2), (lambda *_: ops.reshape(ops.zeros(3), (2,)), 1)]
)
def test_halving_ends_with_one_image_and_is_for_memory_alone(
    tiny_networks, monkeypatch, measure, step, tried
):
    monkeypatch.setattr(ZooNetwork, "step", step)
    settings = "--models lambda_resnet14@32 --batch 2 --modes forward --halve true"
    _, printed = measure(f"models {settings}")
    assert printed.count("  - lambda_resnet14@32: ") == tried
