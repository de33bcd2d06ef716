"""The bench: failures are told, memory is that of the backend, cases can go to other processes."""

import pickle

import pytest

from zoo.benchmark.cases import Bench, measure_in_turn, quotient
from zoo.benchmark.layer import Config, Implementation
from zoo.benchmark.networks import parse
from zoo.benchmark.report import columns
from zoo.benchmark.settings import FORWARD

CASE = Implementation("auto", size=4, depth=8, batch=1, scope=3)


def test_a_new_process_gets_what_a_case_is_not_what_it_built(tiny_networks):
    network = parse("lambda_resnet14@32:classes=3", 2)
    before = pickle.dumps(network)
    assert network.parameters < 200
    assert pickle.dumps(network) == before
    assert pickle.loads(before) == network


@pytest.mark.parametrize("memory", [False, True])
def test_rows_have_time_and_memory(capsys, memory):
    bench = Bench(Config(repeats=3, min_ms=0.1, memory=memory), [], {})
    shown = columns("ms", "temporary_bytes")
    bench.measure([CASE], [FORWARD], shown, lambda mode, figures: None, "title, ")
    (row,) = bench.rows
    figures = row[FORWARD]
    assert min(figures["rounds_ms"]) <= figures["ms"] <= max(figures["rounds_ms"])
    assert len(figures["rounds_ms"]) == 3
    assert figures["calls"] >= 1
    assert (
        (figures["temporary_bytes"] is None) == (figures["memory_method"] is None) == (not memory)
    )
    printed = capsys.readouterr().out
    assert "title, forward\n\n| name | ms | temporary MB |\n" in printed


def test_what_fails_has_its_reason_and_no_figures():
    config = Config(repeats=1, min_ms=0.1)
    fails = Implementation("einsum", size=4, depth=8, batch=1, scope=3, dense_limit_gb=1e-9)
    found = measure_in_turn([fails, CASE], FORWARD, config, config.start_backend(), "")
    assert found["einsum"].pop("reason").startswith("MemoryError: one of its tensors takes")
    assert set(found["einsum"].values()) == {None}
    assert found["auto"]["ms"] > 0
    assert found["auto"]["reason"] is None


def test_quotient():
    assert quotient(6, 3) == 2
    assert quotient(None, 3) is quotient(6, None) is None
