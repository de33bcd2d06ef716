"""`python -m tools.table`, and the tables of the docs that it prints."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tools import table

ROOT = Path(__file__).parents[2]
PAGES = [path for path in ROOT.glob("docs/**/*.md") if "tools.table docs" in path.read_text()]


@pytest.fixture
def report(tmp_path):
    """Path of a report of two layers on two maps."""
    rows = [
        {"size": size, "implementation": name, "forward": {"ms": float(size), "reason": None}}
        for size in (7, 14)
        for name in ("einsum", "auto")
    ]
    rows[-1]["forward"]["ms"] = None
    path = tmp_path / "layer.json"
    path.write_text(json.dumps({"hardware": {"cores": 2}, "rows": rows}))
    return str(path)


def printed(capsys, *arguments: str) -> str:
    table.main(arguments)
    return capsys.readouterr().out


def test_a_line_for_each_row(report, capsys):
    arguments = ["--columns", "size,forward.ms,hardware.cores", "--where", "implementation=auto"]
    assert printed(capsys, report, *arguments).splitlines() == [
        "| size | forward, ms | cores |",
        "| --- | --- | --- |",
        "| 7 | 7.00 | 2 |",
        "| 14 | - | 2 |",
    ]


def test_values_next_to_each_other(report, capsys):
    across = ["--columns", "size", "--across", "implementation", "--values", "forward.ms"]
    assert printed(capsys, report, *across).splitlines() == [
        "| size | einsum | auto |",
        "| --- | --- | --- |",
        "| 7 | 7.00 | 7.00 |",
        "| 14 | 14.0 | - |",
    ]
    head, *_ = printed(capsys, report, *across[:-1], "forward.ms,size").splitlines()
    assert head == (
        "| size | einsum: forward, ms | einsum: size | auto: forward, ms | auto: size |"
    )
    numbers = ["--columns", "implementation", "--across", "size", "--values", "forward.ms"]
    assert printed(capsys, report, *numbers).startswith("| implementation | size 7 | size 14 |\n")


def test_a_wrong_key_and_a_wrong_file_are_one_line(report, tmp_path, capsys):
    with pytest.raises(ValueError, match=r"expected a key.*did you mean 'size'"):
        printed(capsys, report, "--columns", "sise")
    other = tmp_path / "other.json"
    for text in ("", "[]", "{}"):
        other.write_text(text)
        with pytest.raises(ValueError, match=r"expected a report of .*other\.json"):
            printed(capsys, str(other), "--columns", "size")


@pytest.mark.one_backend
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_has_the_tables_that_are_printed(page, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = page.read_text(encoding="utf-8")
    tables = re.findall(r"<!-- python -m tools\.table (.*?) -->\n(.*?)<!-- end -->", text, re.S)
    assert text.count("<!-- python -m tools.table docs") == len(tables)
    for arguments, expected in tables:
        assert printed(capsys, *shlex.split(arguments)) == expected
