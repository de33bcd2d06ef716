"""The bench: the fastest variant counts, failures are told, memory comes from fresh processes."""

import pickle
import sys

import pytest

from zoo.benchmark import fresh, subjects
from zoo.benchmark.backends import TensorFlow
from zoo.benchmark.layer import Config, Implementation
from zoo.benchmark.networks import parse
from zoo.benchmark.settings import FORWARD
from zoo.benchmark.subjects import MS, Bench, fastest, peak_of_step
from zoo.benchmark.timing import Timing


def test_the_fastest_variant_counts_and_failures_are_told():
    variants = {
        "contiguous_format": Timing(0.5, [0.5], 1, [0.5]),
        "channels_last": Timing(0.25, [0.2, 0.25, 0.3], 4, []),
    }
    figures = fastest(variants)
    assert (figures["variant"], figures["ms"], figures["calls"]) == ("channels_last", 250, 4)
    assert figures["rounds_ms"] == [200, 250, 300]
    assert figures["variants"] == {"contiguous_format": 500, "channels_last": 250}
    figures = fastest({**variants, "channels_last": "MemoryError: too large"})
    assert (figures["variant"], figures["ms"]) == ("contiguous_format", 500)
    assert figures["variants"]["channels_last"] == "MemoryError: too large"
    figures = fastest({"": "MemoryError: too large"})
    assert (figures["ms"], figures["reason"]) == (None, "MemoryError: too large")
    assert fastest({})["reason"] == "no such mode"
    assert fastest({"": Timing(1, [1], 1, [1])})["variant"] is None


def test_a_fresh_process_gets_what_a_subject_is_not_what_it_built(tiny_networks):
    network = parse("lambda_resnet14@32:classes=3", 2)
    before = pickle.dumps(network)
    assert network.parameters < 200
    assert pickle.dumps(network) == before
    assert pickle.loads(before) == network


@pytest.mark.parametrize("answer", [{"temporary_bytes": 7_000_000}, {"reason": "killed"}])
def test_memory_is_asked_of_a_fresh_process_where_the_backend_cannot_tell(
    monkeypatch, capsys, answer
):
    asked = []
    monkeypatch.setattr(TensorFlow, "memory_method", None)
    monkeypatch.setattr(fresh, "call", lambda *args, **_: asked.append(args) or answer)
    monkeypatch.setattr(subjects.memory, "check_platform", lambda setting: None)
    subject = Implementation("auto", 4, 8, 1, 3)
    bench = Bench(Config(repeats=1, min_ms=0.1, memory=True, xla=True), [], {})
    bench.measure([subject], [FORWARD], [MS, subjects.MEMORY], lambda mode, figures: None)
    assert asked == [(peak_of_step, subject, FORWARD, "", True)]
    figures = bench.rows[0][FORWARD]
    assert figures["temporary_bytes"] == answer.get("temporary_bytes")
    assert figures["memory_reason"] == answer.get("reason")
    printed = capsys.readouterr().out
    assert ("7.00" if "temporary_bytes" in answer else "- auto: killed") in printed


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is measured on Linux")
def test_peak_of_a_layer_in_a_fresh_process():
    # Without oneDNN, whose allocator would keep the memory.
    environment = {"KERAS_BACKEND": "tensorflow", "TF_ENABLE_ONEDNN_OPTS": "0"}
    subject = Implementation("einsum", 32, 8, 1, 3)
    answer = fresh.call(peak_of_step, subject, FORWARD, "", False, environment=environment)
    assert answer["temporary_bytes"] > subject.dense_bytes(itemsize=4) / 2
