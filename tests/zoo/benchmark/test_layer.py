"""`python -m zoo.benchmark layer`: subjects, table, JSON, picture; nothing is said about speed."""

import json
import math

import pytest
from PIL import Image

from lambda_keras.layers.lambda_layer import CHOICES
from zoo.benchmark import __main__ as command
from zoo.benchmark import layer
from zoo.benchmark.layer import LAYER, MODES, POSITION, Implementation, LayerSettings
from zoo.benchmark.settings import FORWARD, FORWARD_BACKWARD


def test_sizes_and_scopes_make_cases():
    settings = LayerSettings.from_command_line(
        ["--sizes", "8x16,4x32x1", "--scopes", "3,5", "--batch", "6"]
    )
    assert [subjects[0] for subjects in settings.subjects()] == [
        Implementation("einsum", 8, 16, 6, 3),
        Implementation("einsum", 4, 32, 1, 3),
        Implementation("einsum", 8, 16, 6, 5),
        Implementation("einsum", 4, 32, 1, 5),
    ]
    settings = LayerSettings(part="position", scopes=(3,), sizes=("4x8",), dtype="float16")
    assert settings.subjects(2)[0][0] == Implementation(
        "einsum", 4, 8, 4, 3, "position", "float16", dense_limit_gb=2
    )


def test_baseline_is_always_measured_and_first_and_auto_last():
    def names(**settings):
        (subjects,) = LayerSettings(sizes=("4x8",), scopes=(3,), **settings).subjects()
        return [subject.name for subject in subjects]

    assert names(implementations=("auto", "conv")) == ["einsum", "conv", "auto"]
    assert sorted(names()) == sorted(CHOICES["implementation"])
    assert (names()[0], names()[-1]) == ("einsum", "auto")


@pytest.mark.parametrize("scope", [3, 23])
def test_flops_count_every_product_twice(scope):
    batch, n, depth, heads, key, value = 2, 25, 32, 4, 16, 8
    context = min(scope**2, n)
    others = [
        (batch, n, depth, heads * key),  # queries
        (batch, n, depth, key),
        (batch, n, depth, value),
        (batch, n, key, value),  # content lambda
        (batch, n, heads, key, value),  # applied
    ]
    position = [
        (batch, n, context, key, value),  # position lambdas
        (batch, n, heads, key, value),  # applied
    ]
    for part, products in {LAYER: others + position, POSITION: position}.items():
        case = Implementation("auto", 5, depth, batch, scope, part)
        assert case.flops(FORWARD) == 2 * sum(map(math.prod, products))
        assert case.flops(FORWARD_BACKWARD) == 3 * case.flops(FORWARD)


def test_dense_embeddings_that_would_not_fit_are_refused():
    case = (64, 256, 1, 23, LAYER)
    assert Implementation("einsum", *case).dense_bytes(itemsize=4) == 4096 * 4096 * 16 * 4
    with pytest.raises(MemoryError, match=r"its embeddings alone take 1\.1 GB"):
        Implementation("einsum", *case, dense_limit_gb=1).build()
    Implementation("einsum", *case, "mixed_bfloat16", dense_limit_gb=1).build()
    Implementation("auto", *case, dense_limit_gb=1).build()


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
