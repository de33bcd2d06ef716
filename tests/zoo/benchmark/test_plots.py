"""The picture of the layer's benchmark."""

import pytest
from PIL import Image

from zoo.benchmark import plots
from zoo.benchmark.cases import MODES


def report(names, scopes=(7,), memory=None, missing=()):
    rows = [
        {
            "size": size,
            "depth": 8,
            "batch": batch,
            "scope": scope,
            "implementation": name,
            **{
                mode: {
                    "ms": None if (name, size) in missing else float(size),
                    "temporary_bytes": memory,
                }
                for mode in MODES
            },
        }
        for size, batch in ((8, 4), (4, 4), (64, 1))
        for scope in scopes
        for name in names
    ]
    return {
        "hardware": {"cpu": "a CPU", "cores": 2, "accelerator": None},
        "backend": "tensorflow",
        "settings": {"part": "layer", "xla": True, "dtype": "float32"},
        "rows": rows,
    }


@pytest.mark.parametrize("memory", [None, 1000])
@pytest.mark.parametrize("scopes", [(7,), (23, 7)])
def test_picture_grows_with_scopes_and_memory(tmp_path, scopes, memory):
    names = ("einsum", *(f"form {i}" for i in range(12)), "auto")
    plots.plot_layer(report(names, scopes, memory), tmp_path / "layer.png")
    with Image.open(tmp_path / "layer.png") as picture:
        assert picture.height > 400 * len(scopes)
        assert picture.width > 500 * (3 if memory else 2)


def test_lines_run_over_map_sizes_and_leave_out_what_is_missing():
    rows = report(("einsum", "auto"), missing={("einsum", 8)})["rows"]
    rows = [row for row in rows if row["batch"] == 4]
    assert plots._lines(rows, MODES[0], "ms") == {
        "einsum": [(4, 4.0)],
        "auto": [(4, 4.0), (8, 8.0)],
    }
