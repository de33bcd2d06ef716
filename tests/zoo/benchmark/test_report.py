"""Tables and files of benchmarks."""

import json
import pickle
import sys

from zoo.backend import schedulable_cores
from zoo.benchmark import report
from zoo.benchmark.layer import Config
from zoo.benchmark.models import parse
from zoo.benchmark.report import Report


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


def test_progress_is_one_line_where_somebody_watches(monkeypatch, capsys):
    report.progress("nobody watches")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "10")
    report.progress("a long head: round 1")
    assert capsys.readouterr().err == "\r\x1b[2K: round 1"


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
