"""`python -m zoo.benchmark accelerator`, on a CPU and tiny; nothing is said about speed."""

import re
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from zoo.benchmark import accelerator
from zoo.benchmark.accelerator import AcceleratorBench
from zoo.benchmark.backends import current_backend
from zoo.benchmark.layer import MODES, Implementation
from zoo.benchmark.models import MODES as OF_NETWORKS
from zoo.benchmark.models import parse
from zoo.measurements import FORWARD, TRAINING

CASE = Implementation("conv", size=4, depth=8, batch=2, scope=3)
BACKEND = keras.backend.backend()


def arrays(outputs):
    return [
        keras.ops.convert_to_numpy(one) for one in keras.tree.flatten(outputs) if one is not None
    ]


@pytest.mark.parametrize("mode", MODES)
def test_loops_compute_what_single_calls_do(mode):
    expected = arrays(CASE.step(mode, current_backend()).start())
    step = CASE.step(mode, current_backend(looping=True))
    step.run(3)  # another number of turns needs no other program
    for actual, wanted in zip(arrays(step.start()), expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(BACKEND != "jax", reason="programs of JAX can be read")
def test_no_turn_leaves_the_loop():
    text = CASE.step(FORWARD, current_backend(looping=True)).program.as_text()
    named = r"%?([\w.-]+)"
    bodies = re.findall(rf"^((?:ENTRY )?){named} \((.*?)^}}", text, re.M | re.S)
    of = {name: body for _, name, body in bodies}

    def products(name):
        called = re.findall(rf"(?:calls|to_apply)={named}", of[name])
        own = len(re.findall(r" (?:dot|convolution)\(", of[name]))
        return own + sum(products(one) for one in called)

    entry = next(name for is_entry, name, _ in bodies if is_entry)
    (body,) = re.findall(rf"body={named}", of[entry])
    assert products(entry) == 0
    assert products(body) >= 5  # queries, keys, values, two lambdas


def test_training_steps_follow_one_another(tiny_networks):
    network = parse("lambda_resnet14@8", batch=2)
    step = network.step(TRAINING, current_backend(looping=True))
    step.run(2)
    step.run(1)  # the state of the first call was donated to it
    for weight in network.built.weights:
        assert np.isfinite(keras.ops.convert_to_numpy(weight)).all()


@pytest.fixture
def call(measure, tiny_networks):
    settings = "--sizes 4x8x2 --scopes 3 --repeats 1 --min_ms 0.01 --dtype float32"
    settings += f" --implementations conv,auto --backend {BACKEND}"
    settings += " --models lambda_resnet14@8 --largest_batch 2"
    return lambda more="": measure(f"accelerator {settings} {more}")


@pytest.mark.one_backend
def test_second_call_measures_the_rest(call, monkeypatch):
    report, printed = call("--minutes 1e-9")
    assert [(row["implementation"], [mode in row for mode in MODES]) for row in report["rows"]] == [
        (name, [True, False]) for name in ("einsum", "conv", "auto")
    ]
    assert "The time is up: the same command measures the rest." in printed
    first = report["rows"][0][FORWARD]
    report, printed = call()
    assert "The time is up" not in printed
    assert len(report["rows"]) == 4
    assert report["rows"][0][FORWARD] == first
    assert all(row[mode]["ms"] > 0 for row in report["rows"][:3] for mode in MODES)
    assert all(report["rows"][3][mode]["images_per_second"] > 0 for mode in OF_NETWORKS)
    monkeypatch.setattr(AcceleratorBench, "results", None)
    assert call()[0] == report  # nothing is measured again
    with pytest.raises(ValueError, match=r"output: expected a file with the same dtype: mixed_"):
        call("--dtype mixed_bfloat16")


@pytest.mark.one_backend
def test_batches_are_halved_until_they_fit(call, monkeypatch):
    results = AcceleratorBench.results

    def limited(self, cases, mode, head):
        found = results(self, cases, mode, head)
        if cases[0].batch > 2 and mode == TRAINING:
            found[cases[0].name] |= {"ms": None, "reason": "XlaError: RESOURCE_EXHAUSTED: memory"}
        return found

    monkeypatch.setattr(AcceleratorBench, "results", limited)
    report, _ = call("--largest_batch 8")
    tried = {
        row["batch"]: [mode for mode in OF_NETWORKS if mode in row] for row in report["rows"][3:]
    }
    assert tried == {8: [FORWARD, TRAINING], 4: [TRAINING], 2: [TRAINING]}


def test_limit_is_kept(monkeypatch):
    clock = iter([100.0, 250.0, 440.0])
    monkeypatch.setattr(accelerator, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    bench = AcceleratorBench.__new__(AcceleratorBench)
    bench.settings, bench.start, bench.last, bench.longest = accelerator.Config(minutes=8), 0, 0, 0
    assert [bench.time_left() for _ in range(3)] == [True, True, False]  # the next may take 190 s
