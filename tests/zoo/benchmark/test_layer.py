"""`python -m zoo.benchmark layer`: cases, table, JSON, picture; nothing is said about speed."""

import pytest

from lambda_keras.layers.position_lambdas import IMPLEMENTATIONS
from zoo.benchmark import layer
from zoo.benchmark.layer import MODES, Implementation, LayerSettings


def test_sizes_and_scopes_make_cases():
    settings = LayerSettings.from_command_line(
        ["--sizes", "8x16,4x32x1", "--scopes", "3,5", "--batch", "6"]
    )
    first, second = {"size": 8, "depth": 16, "batch": 6}, {"size": 4, "depth": 32, "batch": 1}
    assert [cases[0] for cases in settings.cases()] == [
        Implementation("einsum", **first, scope=3),
        Implementation("einsum", **second, scope=3),
        Implementation("einsum", **first, scope=5),
        Implementation("einsum", **second, scope=5),
    ]
    settings = LayerSettings(scopes=(3,), sizes=("4x8",), dtype="float16", axes=1, causal=True)
    (case,), *_ = zip(*settings.cases(2), strict=True)
    common = {"dtype": "float16", "axes": 1, "causal": True, "dense_limit_gb": 2}
    assert case == Implementation("einsum", size=4, depth=8, batch=4, scope=3, **common)
    assert case.title == "causal, 4, depth 8, batch 4, scope 3"


def test_baseline_is_always_measured_and_first_and_auto_last():
    def names(**settings):
        (cases,) = LayerSettings(sizes=("4x8",), scopes=(3,), **settings).cases()
        return [case.name for case in cases]

    assert names(implementations=("auto", "conv")) == ["einsum", "conv", "auto"]
    assert sorted(names()) == sorted(["auto", *IMPLEMENTATIONS])
    assert (names()[0], names()[-1]) == ("einsum", "auto")


def test_dense_embeddings_that_would_not_fit_are_refused():
    case = {"size": 64, "depth": 256, "batch": 1, "scope": 23, "dense_limit_gb": 1}
    assert Implementation("einsum", **case).dense_numbers() == 4096 * 4096 * 16
    with pytest.raises(MemoryError, match=r"one of its tensors takes 1\.1 GB"):
        Implementation("einsum", **case).build()
    Implementation("einsum", **case, dtype="mixed_bfloat16").build()
    Implementation("auto", **case).build()
    assert Implementation("query_first", **{**case, "scope": 7}).dense_numbers() == 0  # in tiles


@pytest.mark.needs("oneDNN")
def test_tables_and_json(measure):
    settings = "--sizes 4x8x2,8x8x2 --scopes 3 --repeats 2 --min_ms 0.1 --memory true"
    # Embeddings of the larger map alone take 0.26 MB.
    settings += " --implementations query_first,auto --dense_limit_gb 1e-4"
    report, printed = measure(f"layer {settings}")
    assert report["command"].startswith(f"python -m zoo.benchmark layer {settings} --output ")
    assert report["backend"] == "tensorflow"
    names = ["einsum", "query_first", "auto"]
    assert [(row["size"], row["implementation"]) for row in report["rows"]] == [
        (size, name) for size in (4, 8) for name in names
    ]
    for row in report["rows"]:
        for mode in MODES:
            figures = row[mode]
            if row["size"] == 8 and row["implementation"] != "auto":
                assert figures["reason"].startswith("MemoryError: one of its tensors takes")
                assert {figures[name] for name in ("ms", "speedup", "us_per_position")} == {None}
                continue
            assert figures["reason"] is None
            assert len(figures["rounds_ms"]) == 2
            assert min(figures["rounds_ms"]) <= figures["ms"] <= max(figures["rounds_ms"])
            assert figures["temporary_bytes"] >= 0
            assert "peak" in figures["memory_method"]
    assert "8x8, depth 8, batch 2, scope 3, forward + backward" in printed
    assert printed.count("- einsum: MemoryError: one of its tensors takes") == 2


@pytest.mark.parametrize(
    ("times", "speedups", "of_best"),
    [
        ((8, 4, 2), (1, 2, 4), (0.5, 1, 2)),
        ((None, 4, 2), (None, None, None), (None, 1, 2)),
        ((8, None, None), (1, None, None), (1, None, None)),
    ],
)
def test_comparison(times, speedups, of_best):
    case = Implementation("auto", size=4, depth=8, batch=2, scope=3)
    figures = {n: {"ms": ms} for n, ms in zip(("einsum", "conv", "auto"), times, strict=True)}
    layer.compare(case, figures)
    found = list(figures.values())
    assert [f["speedup"] for f in found] == list(speedups)
    assert [f["of_best"] for f in found] == list(of_best)
    assert [f["us_per_position"] for f in found] == [ms and 1e3 * ms / 32 for ms in times]
