"""The pictures of the benchmarks."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from zoo.benchmark import pareto, plots
from zoo.benchmark.layer import MODES
from zoo.benchmark.settings import OUT_OF_MEMORY


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


@pytest.mark.parametrize(("scopes", "memory"), [((7,), None), ((23, 7), 1000)])
def test_picture_grows_with_scopes_and_memory(tmp_path, scopes, memory):
    names = ("einsum", *(f"form {i}" for i in range(12)), "auto")
    plots.plot_layer(report(names, scopes, memory), tmp_path / "layer.png")
    with Image.open(tmp_path / "layer.png") as picture:
        assert picture.height > 400 * len(scopes)
        assert picture.width > 500 * (3 if memory else 2)


def test_depths_that_differ_and_sequences(tmp_path):
    """Of one depth it is the time per position, else the time."""
    result = report(("einsum", "auto"), axes=1)
    for row in result["rows"]:
        row["depth"] = row["size"]
    plots.plot_layer(result, tmp_path / "layer.png")
    with Image.open(tmp_path / "layer.png") as picture:
        assert picture.width > 500 * 2


@pytest.mark.parametrize("sizes", [(8,), (4, 8)])
def test_what_auto_takes_is_seen_around_the_marks_of_others(tmp_path, sizes):
    result = report(("einsum", "auto"))
    result["rows"] = [row for row in result["rows"] if row["size"] in sizes]
    plots.plot_layer(result, tmp_path / "layer.png")
    with Image.open(tmp_path / "layer.png") as picture:
        pixels = np.asarray(picture.convert("RGB"))[:, : picture.width * 3 // 4]  # no legend
    found = (pixels == tuple(bytes.fromhex(plots.AUTO[1:]))).all(-1).sum()
    assert found > 300 * len(sizes)


def test_lines_run_over_map_sizes_and_leave_out_what_is_missing(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: drawn.append(figure))
    plots.plot_layer(report(("einsum", "auto"), missing={("einsum", 8)}), tmp_path)
    lines = {line.get_label(): line.get_xydata().tolist() for line in drawn[0].axes[0].lines}
    assert lines == {"einsum (the paper's)": [[4, 250]], "auto": [[4, 250], [8, 125]]}


def test_growth_has_a_line_per_mixer_and_crosses_where_memory_ends(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: drawn.append(figure))
    missing = {("global", 8): f"{OUT_OF_MEMORY}: MemoryError", ("local", 8): "did not end in 1 s"}

    def row(part, size, mixer):
        reason = missing.get((mixer, size))
        figures = {"ms": None if reason else float(size), "temporary_bytes": None, "reason": reason}
        return {"part": part, "size": size, "mixer": mixer, "forward": figures}

    mixers = ("lambda", "local", "global")
    rows = [row("growth", size, mixer) for size in (4, 8) for mixer in mixers]
    rows += [row("maps", 16, mixer) for mixer in mixers]  # of other depths
    rows += [row("sequences", 64, mixer) for mixer in ("lambda", "dot_product", "global")]
    settings = {"parts": ["growth", "sequences"], "memory": False, "xla": False, "dtype": "float32"}
    head = report(())
    plots.plot_attention({**head, "settings": settings, "rows": rows}, tmp_path)
    maps, sequences = drawn[0].axes
    lines = {line.get_label(): line for line in maps.lines if line.get_marker() != "x"}
    assert {name: line.get_xydata().tolist() for name, line in lines.items()} == {
        "lambda": [[4, 4], [8, 8]],
        "local": [[4, 4]],
        "global": [[4, 4]],
    }
    (cross,) = [line for line in maps.lines if line.get_marker() == "x"]
    assert list(cross.get_xdata()) == [8]
    assert cross.get_color() == lines["global"].get_color()
    colors = {line.get_label(): line.get_color() for line in sequences.lines}
    assert colors["global"] == lines["global"].get_color()
    assert len(set(colors.values())) == 3


def network(model, top1, speeds, library="lambda_keras", overrides=None):
    figures = [{"images_per_second": speed} for speed in speeds]
    return {
        "entry": f"{model}@64",
        "library": library,
        "model": model,
        "image_size": 64,
        "overrides": overrides or {},
        "top1": top1,
        **dict(zip(("forward", "training"), figures, strict=True)),
    }


@pytest.mark.parametrize("modes", [["forward"], ["forward", "training"]])
def test_networks_are_drawn_by_mode_with_and_without_accuracy(tmp_path, monkeypatch, modes):
    drawn = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: drawn.append(figure))
    result = {
        "hardware": {"cpu": "a CPU", "cores": 2, "accelerator": None},
        "backend": "tensorflow",
        "settings": {"xla": False, "dtype": "float32", "batch": 8, "modes": modes},
        "rows": [
            network("lambda_resnet101", 81.9, (4, 2)),
            network("lambda_resnet50", 79.2, (20, 6)),
            network("efficientnet_b1", 79.1, (10, None), "keras"),
            network("resnet50", None, (15, 5), overrides={"placement": "LLLL"}),
        ],
    }
    plots.plot_models(result, tmp_path / "models.png")
    (figure,) = drawn
    assert len(figure.axes) == len(modes)
    forward = figure.axes[0]
    texts = {text.get_text(): text.xy for text in forward.texts}
    assert texts["50@64"] == (20, 79.2)
    assert texts["1@64"] == (10, 79.1)
    assert texts["resnet50@64"][0] == 15
    lines = {line.get_label(): line for line in forward.lines}
    assert list(lines["lambda_resnet*"].get_xdata()) == [4, 20]
    assert "keras.efficientnet_b*" in lines
    assert forward.get_xscale() == "log"
    for axis in figure.axes[1:]:
        assert "1@64" not in {text.get_text() for text in axis.texts}


def test_networks_without_accuracies_are_bars(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: drawn.append(figure))
    result = {
        "hardware": {"cpu": "a CPU", "cores": 2, "accelerator": None},
        "backend": "tensorflow",
        "settings": {"xla": False, "dtype": "float32", "batch": 8, "modes": ["forward"]},
        "rows": [network("resnet50", None, (15, 5)), network("resnet26t", None, (None, 5))],
    }
    plots.plot_models(result, tmp_path / "models.png")
    (axis,) = drawn[0].axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["resnet50@64"]
    assert [bar.get_width() for bar in axis.patches] == [15]


def test_labels_of_a_family():
    row = network("lambda_resnet50_c4", 80.0, (1, 1), overrides={"dropout_rate": 0.2})
    assert plots._family(row) == "lambda_resnet*_c4"
    assert plots._short(row) == "50@64, dropout_rate=0.2"
    row = network("mobilenet", 70.4, (1, 1), "keras")
    assert (plots._family(row), plots._short(row)) == ("keras.mobilenet", "@64")


def test_accuracy_over_published_and_measured_time(tmp_path, capsys):
    report = Path(__file__).parents[3] / "docs/benchmarks/models_tensorflow_cpu.json"
    pareto.run(pareto.Config(measured=report, output=tmp_path / "pareto.png"), [])
    assert capsys.readouterr().out == f"wrote {tmp_path / 'pareto.png'}\n"
    with Image.open(tmp_path / "pareto.png") as picture:
        assert picture.width > 2 * picture.height
        assert len(picture.getcolors(2**24)) > 500


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"benchmark": "layer"}'])
def test_what_is_no_report_of_networks(tmp_path, text):
    (tmp_path / "report.json").write_text(text)
    config = pareto.Config(measured=tmp_path / "report.json", output=tmp_path / "pareto.png")
    with pytest.raises(ValueError, match=r"report of python -m zoo.benchmark models.*report\.json"):
        pareto.run(config, [])
    assert not (tmp_path / "pareto.png").exists()
