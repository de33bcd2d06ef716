"""`python -m zoo.benchmark layer-parts`: parts that make up the layer."""

import json

import keras
import numpy as np
import pytest

from zoo.benchmark import __main__ as command
from zoo.benchmark import layer_parts
from zoo.benchmark.backends import current_backend
from zoo.benchmark.layer import Implementation


def test_parts_make_up_the_layer():
    subject = Implementation("auto", 7, 32, 2, 7)
    steps = layer_parts.steps(subject, current_backend())
    whole, content, position = (
        keras.ops.convert_to_numpy(steps[name]().start())
        for name in (layer_parts.WHOLE, "content lambda", "position lambdas")
    )
    np.testing.assert_allclose((content + position).reshape(whole.shape), whole, atol=1e-5)


def test_shares():
    subject = Implementation("auto", 7, 32, 2, 7)
    whole, product, call = layer_parts.rows(
        subject, {layer_parts.WHOLE: 4.0, layer_parts.PRODUCT: 1.0, "a call": 0.5}, 1e9
    )
    assert (whole["share"], product["share"], call["share"]) == (1, 0.25, 0.125)
    # 98 positions; queries 4 x 16, keys 16 and values 8 of 32 channels, in a millisecond.
    assert product["peak_share"] == pytest.approx(2 * 98 * 32 * 88 / 1e-3 / 1e9)
    assert call["peak_share"] is None


@pytest.mark.slow
def test_table_and_json(tmp_path, capsys):
    output = tmp_path / "parts.json"
    settings = "--sizes 7x32x2 --scope 7 --repeats 1 --min_ms 0.1"
    command.main(["layer-parts", *settings.split(), "--output", str(output)])
    printed = capsys.readouterr().out
    rows = json.loads(output.read_text())["rows"]
    assert len(rows) == 7
    for row in rows:
        assert row["part"] in printed
        assert row["ms"] > 0
