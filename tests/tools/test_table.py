"""`python -m tools.table`."""

import json

import pytest

from tools import table


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
    head = "| size | einsum: forward, ms | einsum: size | auto: forward, ms | auto: size |\n"
    assert printed(capsys, report, *across[:-1], "forward.ms,size").startswith(head)
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
