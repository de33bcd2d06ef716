"""The pictures of the benchmarks."""

import numpy as np
import pytest
from PIL import Image

from zoo.benchmark import plots
from zoo.benchmark.layer import MODES


def report(names, scopes=(7,), memory=None, missing=(), axes=2):
    rows = [
        {
            "size": size,
            "axes": axes,
            "depth": 8,
            "batch": batch,
            "scope": scope,
            "implementation": name,
            **{
                mode: {
                    "ms": None if (name, size) in missing else float(size),
                    "us_per_position": None if (name, size) in missing else 1e3 / size,
                    "temporary_bytes": memory,
                    "reason": "MemoryError: large" if (name, size) in missing else None,
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
        "settings": {"xla": True, "dtype": "float32"},
        "rows": rows,
    }


@pytest.mark.parametrize(("scopes", "memory"), [((7,), None), ((23, 7), 1000)])
def test_picture_grows_with_scopes_and_memory(tmp_path, scopes, memory):
    names = ("einsum", *(f"form {i}" for i in range(12)), "auto")
    plots.plot_layers(report(names, scopes, memory), tmp_path / "layer.png")
    with Image.open(tmp_path / "layer.png") as picture:
        assert picture.height > 400 * len(scopes)
        assert picture.width > 500 * (3 if memory else 2)


def test_depths_that_differ_and_sequences(tmp_path):
    """Of one depth it is the time per position, else the time."""
    result = report(("einsum", "auto"), axes=1)
    for row in result["rows"]:
        row["depth"] = row["size"]
    plots.plot_layers(result, tmp_path / "layer.png")
    with Image.open(tmp_path / "layer.png") as picture:
        assert picture.width > 500 * 2


@pytest.mark.parametrize("sizes", [(8,), (4, 8)])
def test_what_auto_takes_is_seen_around_the_marks_of_others(tmp_path, sizes):
    result = report(("einsum", "auto"))
    result["rows"] = [row for row in result["rows"] if row["size"] in sizes]
    plots.plot_layers(result, tmp_path / "layer.png")
    with Image.open(tmp_path / "layer.png") as picture:
        pixels = np.asarray(picture.convert("RGB"))[:, : picture.width * 3 // 4]  # no legend
    found = (
        (pixels == tuple(bytes.fromhex(plots.LOOKS["styles"]["auto"]["color"][1:]))).all(-1).sum()
    )
    assert found > 300 * len(sizes)


def test_lines_run_over_map_sizes_and_leave_out_what_is_missing(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: drawn.append(figure))
    plots.plot_layers(report(("einsum", "auto"), missing={("einsum", 8)}), tmp_path)
    drawn_lines = [line for line in drawn[0].axes[0].lines if line.get_marker() != "x"]
    lines = {line.get_label(): line.get_xydata().tolist() for line in drawn_lines}
    assert lines == {"einsum (the paper's)": [[4, 250]], "auto": [[4, 250], [8, 125]]}


def test_mixers_have_a_line_each_and_crosses_where_there_is_no_figure(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: drawn.append(figure))
    result = report(("lambda", "local", "global"), missing={("global", 8)})
    for row in result["rows"]:
        row["mixer"] = row.pop("implementation")
        del row["scope"]
        for mode in MODES:
            del row[mode]["us_per_position"]
    plots.plot_layers(result, tmp_path)
    forward, _ = drawn[0].axes
    lines = {line.get_label(): line for line in forward.lines if line.get_marker() != "x"}
    assert {name: line.get_xydata().tolist() for name, line in lines.items()} == {
        "lambda": [[4, 4], [8, 8]],
        "local": [[4, 4], [8, 8]],
        "global": [[4, 4]],
    }
    (cross,) = [line for line in forward.lines if line.get_marker() == "x"]
    assert list(cross.get_xdata()) == [8]
    assert cross.get_color() == lines["global"].get_color()
    assert forward.get_title(loc="left") == "Time, forward"


def test_compiled_programs_have_ideal_times(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: drawn.append(figure))
    result = report(("einsum", "auto"))
    for row in result["rows"]:
        row["depth"] = row["size"]
        for mode in MODES:
            row[mode]["ideal_ms"] = row[mode].pop("ms")
    result["hardware"]["accelerator"] = "a GPU (compiled, not run)"
    del result["settings"]["xla"]
    plots.plot_layers(result, tmp_path)
    assert drawn[0].axes[0].get_title(loc="left") == "Ideal time, forward, scope 7"
    assert "not run" in drawn[0].get_suptitle()
