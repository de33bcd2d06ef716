"""`python -m zoo.benchmark parts`: every layer is in one kind, and the table adds up."""

import json

import pytest

from zoo.benchmark import __main__ as command
from zoo.benchmark import parts
from zoo.benchmark.networks import parse


def test_every_layer_is_counted_once():
    network = parse("lambda_resnet14@16:scope=7", 2)
    found = list(parts.layer_parts(network, None))
    assert sum(part.count for part in found) == len(network.built.layers) - 1
    assert len({part.name for part in found}) == len(found) < len(network.built.layers) - 1
    kinds = {part.kind for part in found}
    assert kinds >= {"lambda layers", "convolutions", "batch normalization", "activations"}


def test_rows_add_up():
    one = parts.Part("convolutions", "a", 2, lambda: None)
    other = parts.Part("activations", "b", 3, lambda: None)
    table = parts.rows([one, other], {"a": 1.0, "b": 2.0, parts.STEP: 10.0})
    assert [(row["part"], row["count"], row["ms"], row["share"]) for row in table] == [
        ("activations", 3, 6.0, pytest.approx(0.6)),
        ("convolutions", 2, 2.0, pytest.approx(0.2)),
        (parts.REST, None, 2.0, pytest.approx(0.2)),
        (parts.STEP, None, 10.0, 1),
    ]


@pytest.mark.slow
def test_table_and_json(tiny_networks, tmp_path, capsys):
    output = tmp_path / "parts.json"
    settings = "--model lambda_resnet14@16 --batch 1 --repeats 1 --min_ms 0.1"
    command.main(["parts", *settings.split(), "--output", str(output)])
    printed = capsys.readouterr().out
    report = json.loads(output.read_text())
    for row in report["rows"]:
        assert row["part"] in printed
    assert report["rows"][-1]["share"] == 1
    assert all(part["ms"] > 0 for part in report["parts"])
