"""Tables and files of benchmarks."""

import json
import pickle
import sys

import pytest

from zoo.backend import schedulable_cores
from zoo.benchmark import report
from zoo.benchmark.layer import Config
from zoo.benchmark.models import parse
from zoo.benchmark.report import Column, Report


def test_report_says_when_how_on_what_and_with_what(tmp_path, capsys):
    arguments = ["--sizes", "4x8", "--output", str(tmp_path / "new" / "a.json")]
    config = Config.from_command_line(arguments, "python -m zoo.benchmark layer")
    head = Report(config, ["tensorflow"], accelerator=None)
    head.rows += [{"who": "a", "ms": 1}, {"who": "a", "ms": 2}]
    head.write()
    head.finish()
    read = json.loads((tmp_path / "new" / "a.json").read_text())
    assert read["benchmark"] == "layer"
    assert read["command"].startswith("python -m zoo.benchmark layer --sizes 4x8 --output ")
    assert read["date"] > "2020"
    assert read["settings"]["sizes"] == ["4x8"]
    assert read["hardware"]["cores"] >= 1
    assert {"cpu", "accelerator"} <= set(read["hardware"])
    assert set(read["versions"]) == {"python", "lambda_keras", "keras", "numpy", "tensorflow"}
    assert read["conventions"]["ms"].startswith("median")
    assert read["backend"] == "tensorflow"
    assert read["rows"] == [{"who": "a", "ms": 1}, {"who": "a", "ms": 2}]
    printed = capsys.readouterr().out
    assert f"{read['hardware']['cpu']}, {read['hardware']['cores']} CPU cores\n" in printed
    assert "a.json\n" in printed


def test_table_has_every_row_and_why_one_is_empty(capsys):
    columns = [Column("ms", "ms"), Column("share", "of.it", 100.0)]
    rows = [
        {"who": "[a]", "ms": 12.345, "of": {"it": 0.5}, "reason": None},
        {"who": "b", "ms": None, "of": {"it": None}, "reason": "MemoryError: [4, 4] is too large"},
    ]
    report.print_table("Title", "who", columns, rows)
    assert capsys.readouterr().out.strip().splitlines() == [
        "Title",
        "",
        "| who | ms | share |",
        "| --- | --- | --- |",
        "| [a] | 12.3 | 50.0 |",
        "| b | - | - |",
        "  - b: MemoryError: [4, 4] is too large",
    ]


@pytest.mark.parametrize(
    ("key", "title", "value", "cell"),
    [
        ("forward.ms", "forward, ms", 12.345, "12.3"),
        ("training.images_per_second", "training, images/s", 4.0, "4.00"),
        ("temporary_bytes", "temporary MB", 5_000_000, "5.00"),
        ("operations", "GFLOP", 2e12, "2000"),
        ("training.hbm_bytes", "training, hbm MB", 2_000_000, "2.00"),
        ("hardware.cores", "cores", 2, "2"),
        ("implementation", "implementation", "auto", "auto"),
        ("forward.of_best", "forward, of best", None, "-"),
    ],
)
def test_columns_by_key(key, title, value, cell):
    column = report.column(key)
    row = value
    for part in reversed(key.split(".")):
        row = {part: row}
    assert (column.title, column.cell(row)) == (title, cell)
    assert column.cell({}) == "-"


def test_a_missing_package_is_named():
    assert report.installed(["pytest"], "").keys() == {"pytest"}
    with pytest.raises(ImportError, match="no-such-package is not installed: pip install it"):
        report.installed(["pytest", "no-such-package"], "pip install it")


@pytest.mark.parametrize(
    ("number", "factor", "expected"),
    [
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


def test_progress_is_one_line_where_somebody_watches(monkeypatch, capsys):
    report.progress("nobody watches")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "10")
    report.progress("a long head: round 1")
    assert capsys.readouterr().err == "\r\x1b[2K: round 1"


def test_place_is_the_accelerator_if_there_is_one():
    head = {"hardware": {"cpu": "a CPU", "cores": 2, "accelerator": "a GPU"}}
    assert report.place(head) == "a GPU"


def test_threads(monkeypatch):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "3")
    assert report.threads() == 3
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS")
    assert report.threads() == schedulable_cores() >= 1


def test_a_new_process_gets_what_a_case_is_not_what_it_built(tiny_networks):
    network = parse("lambda_resnet14@32:classes=3", 2)
    before = pickle.dumps(network)
    assert network.parameters < 200
    assert pickle.dumps(network) == before
    assert pickle.loads(before) == network
