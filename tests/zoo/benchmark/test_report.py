"""What benchmarks write down."""

import json

import pytest

from zoo.benchmark import report
from zoo.benchmark.cases import LayerSettings


def test_report_says_when_how_on_what_and_with_what(tmp_path):
    config = LayerSettings(sizes=("4x8",), output=tmp_path / "a.json")
    head = report.describe("layer", ["--sizes", "4x8", "--x", "a b"], config, ["tensorflow"])
    report.write(head, tmp_path / "a.json")
    read = json.loads((tmp_path / "a.json").read_text())
    assert read["command"] == "python -m zoo.benchmark layer --sizes 4x8 --x 'a b'"
    assert read["settings"]["sizes"] == ["4x8"]
    assert read["hardware"]["cores"] >= 1
    assert read["hardware"]["cpu"]
    assert set(read["versions"]) == {"python", "lambda_keras", "keras", "numpy", "tensorflow"}


@pytest.mark.parametrize(
    ("number", "factor", "expected"),
    [
        (None, 1.0, "-"),
        (1234.5, 1.0, "1234"),
        (12.345, 1.0, "12.3"),
        (1.3, 1.0, "1.30"),
        (0.01234, 1.0, "0.0123"),
        (5e9, 1e-9, "5.00"),
        (0, 1e-9, "0.00"),
        (99.97, 1.0, "100"),
    ],
)
def test_digits(number, factor, expected):
    assert report.digits(number, factor) == expected


def test_place_is_the_accelerator_if_there_is_one(capsys):
    head = {"hardware": {"cpu": "a CPU", "cores": 2}, "versions": {"keras": "3.1", "numpy": "2"}}
    report.print_head(head)
    assert capsys.readouterr().out == "a CPU, 2 CPU cores\nkeras 3.1, numpy 2\n"
    head["hardware"]["accelerator"] = "a GPU"
    assert report.place(head) == "a GPU"


def test_cores():
    assert report.cores() >= 1
