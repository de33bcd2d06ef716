"""`python -m tools.choices`: how far `auto` is from the fastest, and timm's columns."""

import csv
import json

from lambda_keras.layers.position_lambdas import choices as table
from tools import choices
from zoo.measurements import FORWARD, FORWARD_BACKWARD, TRAINING


def test_rows_correct_the_table(monkeypatch):
    def row(name, forward, training):
        times = {FORWARD: {"ms": forward}, FORWARD_BACKWARD: {"ms": training}}
        return {"implementation": name, "size": 20, "axes": 2, "scope": 23, "batch": 128, **times}

    rows = [row("einsum", 9.0, None), row("conv", 2.0, 5.0), row("fourier", 1.0, 6.0)]
    found = choices.choices([*rows, row("auto", 2.0, 5.1)])
    assert [(one["mode"], one["best"], one["auto_of_best"]) for one in found] == [
        (FORWARD, "fourier", 2.0), (FORWARD_BACKWARD, "conv", 1.02)
    ]  # fmt: skip
    (correction,) = choices.corrections(found)
    monkeypatch.setitem(table.CHOICES, "cpu", [correction, ("einsum", {})])
    case = {"value_dim": 64, "causal": False, "intra_depth": 1}
    assert table.fastest((20, 20), (23, 23), training=False, batch=128, **case) == "fourier"
    assert table.fastest((20, 20), (23, 23), training=True, batch=128, **case) == "einsum"
    assert table.fastest((20, 20), (7, 7), training=False, batch=128, **case) == "einsum"


def test_networks_have_a_file_in_columns_of_timm(tmp_path, capsys):
    layer = {"implementation": "einsum", "size": 4, "axes": 2, "scope": 3, "batch": 1}
    rows = [{**layer, "implementation": name, FORWARD: {"ms": 2.0}} for name in ("conv", "auto")]
    network = {"entry": "resnet50@160:placement=LLLL", "image_size": 160, "parameters": 25_557_032}
    fits = {"ms": 4.0004, "images_per_second": 2000.001}
    rows += [{**network, "batch": 8, FORWARD: fits, TRAINING: {"ms": None}}]
    rows += [{**network, "batch": 4, TRAINING: {"ms": 9.0, "images_per_second": 444.444}}]
    (tmp_path / "device.json").write_text(json.dumps({"rows": rows}))
    choices.main([str(tmp_path / "device.json")])
    printed = capsys.readouterr().out
    assert "| 16 | 3 | 1 | forward | conv | 1.00 |" in printed
    assert "Rows to put first" not in printed
    (row,) = csv.DictReader((tmp_path / "device.csv").read_text().splitlines())
    expected = {"model": "resnet50:placement=LLLL", "param_count": "25.56"}
    columns = ("samples_per_sec", "step_time", "batch_size", "img_size")
    for kind, values in {"infer": "2000.0 4.0 8 160", "train": "444.44 9.0 4 160"}.items():
        named = zip(columns, values.split(), strict=True)
        expected |= {f"{kind}_{name}": value for name, value in named}
    assert row == expected
