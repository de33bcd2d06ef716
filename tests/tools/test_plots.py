"""`python -m tools.plots`: which lines the figures of the benchmarks have."""

import json

import numpy as np
import pytest
from PIL import Image

from tools import plots
from zoo.measurements import FORWARD, FORWARD_BACKWARD

AT, MODES = "us_per_position", (FORWARD, FORWARD_BACKWARD)


def report(names, scopes=(7,), memory=None, missing=(), axes=2, kind="implementation", **changes):
    """A report of layers on maps of 8, 4 and, in another batch, 64 pixels."""
    rows = [
        {"size": size, "axes": axes, "depth": 8, "batch": batch, "scope": scope}
        | {kind: name, **{mode: {"ms": float(size), AT: 1e3 / size} for mode in MODES}}
        for size, batch in ((8, 4), (4, 4), (64, 1))
        for scope in scopes
        for name in names
    ]
    for row in rows:
        none = (row[kind], row["size"]) in missing
        for mode in MODES:
            row[mode] |= {"temporary_bytes": memory, "reason": "large: 9 GB" if none else None}
            row[mode] |= {"ms": None, AT: None} if none else {}
    hardware = {"cpu": "a CPU", "cores": 2, "accelerator": None}
    settings = {"xla": True, "dtype": "float32", "batch": 4, "depth": 8}
    head = {"benchmark": "layer", "hardware": hardware, "backend": "tensorflow"}
    return {**head, "settings": settings, "rows": rows, **changes}


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Draws reports as the command does; the figures by the names of their files."""
    found = {}
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: found.update({path: figure}))

    def draw(content):
        path = tmp_path / "a.json"
        path.write_text(json.dumps(content))
        plots.main([str(path)])
        return {path.name: figure for path, figure in found.items()}

    return draw


def texts(labels) -> list[str]:
    return [label.get_text() for label in labels]


def lines(axis):
    plotted = [line for line in axis.lines if line.get_marker() != "x"]
    return {line.get_label(): line.get_xydata().tolist() for line in plotted}


def test_the_file_shows_what_auto_takes_around_the_marks_of_others(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(report(("einsum", "auto"), (23, 7), 1000)))
    plots.main([str(tmp_path / "a.json")])
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.height > 800
        pixels = np.asarray(picture.convert("RGB"))[:, : picture.width * 3 // 4]  # no legend
    color = tuple(bytes.fromhex(plots.LOOKS["styles"]["auto"]["color"][1:]))
    assert (pixels == color).all(-1).sum() > 600


def test_maps_of_one_depth_have_a_time_per_position(drawn):
    """A row of panels for each scope; other batches and missing measurements are left out."""
    figure = drawn(report(("einsum", "auto"), (23, 7), 5e6, {("einsum", 8)}))["a.png"]
    shown = [f"Time per position, forward{more}" for more in ("", " + backward")]
    shown += ["Temporary memory, forward"]
    titles = [f"{title}, scope {scope}" for scope in (7, 23) for title in shown]
    assert [axis.get_title(loc="left") for axis in figure.axes] == titles
    found = {"einsum (the paper's)": [[4, 250]], "auto": [[4, 250], [8, 125]]}
    assert lines(figure.axes[0]) == found
    assert lines(figure.axes[2])["auto"] == [[4, 5], [8, 5]]
    assert texts(figure.axes[0].get_xticklabels()) == ["4", "8"]
    title = "One layer, batch 4, float32, tensorflow, XLA, a CPU, 2 CPU cores"
    assert figure.get_suptitle() == title


def test_mixers_have_a_line_each_and_crosses_where_there_is_no_measurement(drawn):
    """And, of several depths, no figure with a claim."""
    missing = {("global", 8), ("local", 8)}
    result = report(("lambda", "local", "global"), missing=missing, axes=1, kind="mixer")
    for row in result["rows"]:
        row["depth"] = 2 * row["size"]
        del row["scope"]
    (figure,) = drawn(result).values()
    forward, _ = figure.axes
    one, both = [[4, 4]], [[4, 4], [8, 8]]
    assert lines(forward) == {"lambda": both, "local": one, "global": one}
    crosses = [line for line in forward.lines if line.get_marker() == "x"]
    places = np.concatenate([cross.get_xydata() for cross in crosses])
    np.testing.assert_allclose(places, [[8, 0.98], [8, 0.93]])
    colors = {line.get_label(): line.get_color() for line in forward.lines}
    assert [cross.get_color() for cross in crosses] == [colors["local"], colors["global"]]
    assert forward.get_title(loc="left") == "Time, forward"
    assert forward.get_xlabel() == "Length, depth"
    assert texts(forward.get_xticklabels()) == ["4\nd 8", "8\nd 16"]


def test_three_layers_in_training_have_a_small_figure_with_a_claim(drawn):
    names = {"lambda": "lambda layer", "local": "local attention", "global": "global attention"}
    result = report((*names, "favor"), missing={("global", 8)}, kind="mixer")
    figure = drawn(result)["a_training.png"]
    assert figure.get_suptitle() == plots.LOOKS["training_claim"]
    assert 96 * figure.get_figwidth() * 0.8 < 390 - 32  # letters of 10 points have 10 pixels
    (axis,) = figure.axes
    both = [[4, 4], [8, 8]]
    assert lines(axis) == {"lambda": both, "local": both, "global": both[:1]}
    assert {*texts(axis.texts)} == {*names.values(), "large"}
    assert texts(axis.get_xticklabels()) == ["4x4", "8x8"]


def test_compiled_programs_have_ideal_times(drawn):
    result = report(("einsum", "auto"))
    for row in result["rows"]:
        row["depth"] = row["size"]
        for mode in MODES:
            row[mode]["ideal_ms"] = row[mode].pop("ms")
    result["hardware"]["accelerator"] = "a GPU (compiled, not run)"
    del result["settings"]["xla"]
    figure = drawn(result)["a.png"]
    assert figure.axes[0].get_title(loc="left") == "Ideal time, forward, scope 7"
    assert figure.get_suptitle().endswith("tensorflow, a GPU (compiled, not run)")


def test_steps_are_of_the_next_position(drawn):
    steps = {size: {"ms_per_step": size / 10, "reason": None} for size in (10, 100)}
    row = {"depth": 8, "mixer": "LambdaCell"}
    rows = [{**row, "size": size, "forward": step} for size, step in steps.items()]
    (axis,) = drawn(report((), benchmark="steps", rows=rows))["a.png"].axes
    assert lines(axis) == {"LambdaCell": [[10, 1], [100, 10]]}
    assert axis.get_title(loc="left") == "Time of the next position"


def test_networks_have_a_figure_of_their_own(drawn):
    row = {"entry": "lambda_resnet50@160", "image_size": 160, "batch": 8, "parameters": 1e6}
    row["forward"] = {"ms": 4.0, "images_per_second": 2000.0}
    figures = drawn(report((), benchmark="accelerator", rows=[row]))
    infer, train = figures.pop("a_networks.png").axes
    assert not figures
    assert [bar.get_width() for bar in infer.patches] == [2000]
    assert texts(infer.texts) == [" 2,000 (batch 8)"]
    assert texts(train.texts) == [" 0 none"]
    assert texts(infer.get_yticklabels()) == ["lambda_resnet50, 160"]


def test_claims_of_an_experiment(drawn):
    verdicts = ["supported", "contradicted", "no difference found"]
    rows: list[dict] = [
        {"kind": "claim", "table": "T", "claim": f"{low} > 0", "metric": metric}
        | {"verdict": verdict, "low": low, "high": low + 2, "difference": low + 1}
        for metric in ("accuracy", "moved")
        for low, verdict in zip((1, -3, -1), verdicts, strict=True)
    ]
    row = {"kind": "row", "table": "T", "row": "0", "accuracy": 1.0, "train_images": None}
    (axis,) = drawn(report([], benchmark="experiment", rows=[*rows, row]))["a.png"].axes
    _, *plotted = [line.get_xydata().tolist() for line in axis.lines]
    assert plotted[::2] == [[[1, 0], [3, 0]], [[-3, 1], [-1, 1]], [[-1, 2], [1, 2]]]
    assert plotted[1::2] == [[[2, 0]], [[-2, 1]], [[0, 2]]]
    assert len({line.get_color() for line in axis.lines[1:]}) == 3
    assert texts(axis.get_yticklabels()) == ["T: 1 > 0", "T: -3 > 0", "T: -1 > 0"]


def test_rows_of_an_experiment(drawn):
    def row(name, images, accuracy, ms=None, sd: float | None = 0.5):
        line = {"kind": "row", "table": "Data size", "row": name, "train_images": images}
        return {**line, "accuracy": accuracy, "accuracy_sd": sd, "ms": ms, "moved": accuracy}

    rows = [
        row("lambda", None, 90.0, 12.0),
        row("lambda, 60 images", 60, 70.0),
        row("convolution", None, 88.0, 6.0),
        row("convolution, 60 images", 60, 72.0),
        row("not run", 6, None, sd=None),
        row("one seed", 6, 60.0, 9.0, sd=None),
        {**row("other", None, 50.0), "table": "Table 3"},
    ]
    figures = drawn(report([], benchmark="experiment", rows=rows))
    times, (sizes,) = (figures[f"a_{name}.png"].axes for name in ("times", "data"))
    assert texts(times[0].get_yticklabels()) == ["convolution", "lambda"]
    points = [[bars.lines[0].get_xydata().tolist() for bars in axis.containers] for axis in times]
    accuracies = [[[88.0, 0]], [[90.0, 1]]]
    assert points == [[[[6.0, 0]], [[12.0, 1]]], accuracies, accuracies]
    (legend,) = figures["a_times.png"].legends
    assert texts(legend.texts) == ["convolutions", "lambda layers"]
    lines = {bars.get_label(): bars.lines[0].get_ydata().tolist() for bars in sizes.containers}
    assert lines == {"lambda": [70.0, 90.0], "convolution": [72.0, 88.0]}
    assert texts(sizes.get_xticklabels()) == ["60", "all"]
