"""Tables of measurements."""

import pytest

from zoo import measurements
from zoo.measurements import Column


def test_table_has_every_row_and_why_one_is_empty(capsys):
    columns = [Column("ms", "ms"), Column("share", "of.it", 100.0)]
    rows = [
        {"who": "[a]", "ms": 12.345, "of": {"it": 0.5}, "reason": None},
        {"who": "b", "ms": None, "of": {"it": None}, "reason": "MemoryError: [4, 4] is too large"},
    ]
    measurements.print_table("Title", "who", columns, rows)
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
        ("ms", "ms", 0.01234, "0.0123"),
        ("ms", "ms", 99.97, "100"),
        ("training.images_per_second", "training, images/s", 4.0, "4.00"),
        ("images_per_second", "images/s", 1234.5, "1234"),
        ("temporary_bytes", "temporary MB", 5_000_000, "5.00"),
        ("temporary_bytes", "temporary MB", 0, "0.00"),
        ("operations", "GFLOP", 2e12, "2000"),
        ("training.hbm_bytes", "training, hbm MB", 2_000_000, "2.00"),
        ("hardware.cores", "cores", 2, "2"),
        ("implementation", "implementation", "auto", "auto"),
        ("forward.of_best", "forward, of best", None, "-"),
    ],
)
def test_columns_by_key(key, title, value, cell):
    column = measurements.column(key)
    row = value
    for part in reversed(key.split(".")):
        row = {part: row}
    assert (column.title, column.cell(row)) == (title, cell)
    assert column.cell({}) == "-"


def test_a_missing_package_is_named():
    assert measurements.installed(["pytest"], "").keys() == {"pytest"}
    with pytest.raises(ImportError, match="no-such-package is not installed: pip install it"):
        measurements.installed(["pytest", "no-such-package"], "pip install it")


def test_place_is_the_accelerator_if_there_is_one():
    head = {"hardware": {"cpu": "a CPU", "cores": 2, "accelerator": "a GPU"}}
    assert measurements.place(head) == "a GPU"
