"""`python -m zoo.benchmark steps`: table, JSON; nothing about speed."""

import numpy as np
import pytest
from keras import ops

from zoo.benchmark.backends import current_backend
from zoo.benchmark.steps import CELL, LAYER, Config
from zoo.measurements import FORWARD


def test_table_and_json(measure):
    settings = "--lengths 3,5 --depth 8 --scope 3 --batch 2 --repeats 2 --min_ms 0.1"
    report, printed = measure(f"steps {settings}")
    rows = report["rows"]
    expected = [(size, mixer) for size in (3, 5) for mixer in (CELL, LAYER)]
    assert [(row["size"], row["mixer"]) for row in rows] == expected
    for row in rows:
        one = row[FORWARD]
        steps = row["size"] if row["mixer"] == CELL else 1
        assert one["ms_per_step"] == pytest.approx(one["ms"] / steps)
        assert len(one["rounds_ms"]) == 2
    assert "LambdaCell, 5" in printed


def test_cell_and_layer_compute_the_same():
    backend = current_backend()
    cell, layer = (
        ops.convert_to_numpy(case.step(FORWARD, backend).start())
        for case in Config(lengths=(6,), depth=8, scope=3).cases()
    )
    np.testing.assert_allclose(cell, layer, rtol=1e-4, atol=1e-4)
