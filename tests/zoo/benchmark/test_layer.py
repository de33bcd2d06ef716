"""`python -m zoo.benchmark layer`: table, JSON and picture; nothing is said about speed."""

import json

import pytest
from PIL import Image

from zoo.benchmark import __main__ as command
from zoo.benchmark import layer
from zoo.benchmark.cases import MODES, Implementation


def test_tables_json_and_picture(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(layer, "CPU_MATRIX", 64)
    output = tmp_path / "new" / "layer.json"
    settings = "--sizes 4x8x2,8x8x2 --scopes 3 --repeats 2 --min_ms 0.1 --memory true"
    # Embeddings of the larger map alone take 0.26 MB.
    settings += f" --implementations query_first,auto --dense_limit_gb 1e-4 --output {output}"
    command.main(["layer", *settings.split()])
    printed = capsys.readouterr().out
    report = json.loads(output.read_text())
    assert report["backend"] == "tensorflow"
    assert report["matrix_peak_gflops"] > 0
    names = ["einsum", "query_first", "auto"]
    assert [(row["size"], row["implementation"]) for row in report["rows"]] == [
        (size, name) for size in (4, 8) for name in names
    ]
    for row in report["rows"]:
        for mode in MODES:
            figures = row[mode]
            if row["size"] == 8 and row["implementation"] != "auto":
                assert figures["reason"].startswith("MemoryError: its embeddings alone take")
                assert {figures[name] for name in ("ms", "speedup", "peak_share")} == {None}
                continue
            assert figures["reason"] is None
            assert len(figures["rounds_ms"]) == 2
            assert min(figures["rounds_ms"]) <= figures["ms"] <= max(figures["rounds_ms"])
            assert figures["temporary_bytes"] >= 0
            assert "peak" in figures["memory_method"]
    assert "8x8, depth 8, batch 2, scope 3, forward + backward" in printed
    assert printed.count("- einsum: MemoryError: its embeddings alone take") == 2
    with Image.open(output.with_suffix(".png")) as picture:
        assert picture.width > picture.height > 300


@pytest.mark.parametrize(
    ("times", "speedups", "of_best"),
    [
        ((8, 4, 2), (1, 2, 4), (0.5, 1, 2)),
        ((None, 4, 2), (None, None, None), (None, 1, 2)),
        ((8, None, None), (1, None, None), (1, None, None)),
    ],
)
def test_comparison(times, speedups, of_best):
    case = Implementation("auto", 4, 8, 2, 3)
    figures = {n: {"ms": ms} for n, ms in zip(("einsum", "conv", "auto"), times, strict=True)}
    layer.compare(case, 1e9, MODES[1], figures)
    found = list(figures.values())
    assert [f["speedup"] for f in found] == list(speedups)
    assert [f["of_best"] for f in found] == list(of_best)
    share = case.flops(MODES[1]) / 1e9
    shares = [ms and pytest.approx(share / (1e-3 * ms)) for ms in times]
    assert [f["peak_share"] for f in found] == shares
