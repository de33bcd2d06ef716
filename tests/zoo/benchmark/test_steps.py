"""`python -m zoo.benchmark steps`: table, JSON, figure; nothing about speed."""

import json

import numpy as np
import pytest
from keras import ops
from PIL import Image

from zoo.benchmark import __main__ as command
from zoo.benchmark.backends import current_backend
from zoo.benchmark.settings import FORWARD
from zoo.benchmark.steps import CELL, LAYER, WHOLE, Config


def test_table_json_and_figure(tmp_path, capsys):
    output = tmp_path / "steps.json"
    settings = "--lengths 3,5 --depth 8 --scope 3 --batch 2 --repeats 2 --min_ms 0.1"
    # Maps of attention of 5 positions alone take more than 1.5 kB.
    command.main(["steps", *f"{settings} --dense_limit_gb 1.5e-6 --output {output}".split()])
    rows = json.loads(output.read_text())["rows"]
    mixers = (CELL, *WHOLE)
    assert [(row["size"], row["mixer"]) for row in rows] == [(n, m) for n in (3, 5) for m in mixers]
    for row in rows[:-1]:
        one = row[FORWARD]
        steps = row["size"] if row["mixer"] == CELL else 1
        assert one["ms_per_step"] == pytest.approx(one["ms"] / steps)
        assert len(one["rounds_ms"]) == 2
    assert rows[-1][FORWARD]["reason"].startswith("MemoryError")
    assert rows[-1][FORWARD]["ms_per_step"] is None
    assert "LambdaCell, 5" in capsys.readouterr().out
    with Image.open(output.with_suffix(".png")) as picture:
        assert picture.width > picture.height > 300


def test_cell_and_layer_compute_the_same():
    backend = current_backend()
    cases = {case.mixer: case for case in Config(lengths=(6,), depth=8, scope=3).cases()}
    cell, layer = (
        ops.convert_to_numpy(cases[name].step(FORWARD, backend).start()) for name in (CELL, LAYER)
    )
    np.testing.assert_allclose(cell, layer, rtol=1e-4, atol=1e-4)
