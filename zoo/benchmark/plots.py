"""Pictures of benchmarks."""

import re
from collections.abc import Iterable, Mapping
from itertools import cycle, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

from zoo.benchmark.mixers import LAMBDA
from zoo.benchmark.report import place
from zoo.benchmark.settings import (
    BASELINE,
    FORWARD,
    FORWARD_BACKWARD,
    GROWTH,
    LAYER,
    OUT_OF_MEMORY,
    POSITION,
    SEQUENCES,
    TRAINING,
)
from zoo.data.sources.pathfinder import draw_pathfinder
from zoo.errors import needs_extra
from zoo.plots.style import INK, PALE, WRONG, new_figure, save_figure
from zoo.results import RESULTS

with needs_extra("train"):
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

AUTO = "#c0d2ed"
COLORS = ("#2a9d8f", "#e9a23b", "#7b5ea7", "#4d7c3a", "#c2599b", "#8c6d52", "#5fa8d3", "#8a93a6")
COLORS += ("#3b3b3b", "#a3a847")
MARKERS = "osD^vP<>Xp"
TITLES = {LAYER: "One lambda layer", POSITION: "Position lambdas of one layer"}
TITLES |= {FORWARD: "Forward", TRAINING: "Training step"}
# A broad band under the line of whatever it takes, and a mark where one size makes no line.
BAND = {"color": AUTO, "lw": 9, "solid_capstyle": "round", "marker": "o", "ms": 14, "zorder": 1}
PAPER = {"color": WRONG, "lw": 2.2, "marker": "s", "ms": 5, "label": f"{BASELINE} (the paper's)"}
LAMBDA_LINE = {"color": WRONG, "lw": 2.2, "marker": "s", "ms": 5, "label": LAMBDA}
STYLES = {"auto": BAND, BASELINE: PAPER, LAMBDA: LAMBDA_LINE}
PADS = ((0, 0), (1, 1), (1, 1), (0, 0))  # between images
LOOKS: dict[Any, Any] = {
    **dict.fromkeys(("axes.titlecolor", "axes.labelcolor", "legend.labelcolor"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), INK),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.grid": True,
    "grid.color": PALE,
    "grid.linewidth": 0.8,
}


@rc_context(LOOKS)
def plot_layer(result: dict[str, Any], path: Path) -> None:
    """Draws time and memory against map size: one row per scope, one line per implementation.

    Of maps of one depth it is the time for each position, which shows how it grows. Only the maps
    with the batch of the first one are drawn; others would not be comparable.
    """
    batch = result["rows"][0]["batch"]
    rows = [row for row in result["rows"] if row["batch"] == batch]
    scopes = sorted({row["scope"] for row in rows})
    key, title, unit = "ms", "Time", "ms"
    if len({row["depth"] for row in rows}) == 1:
        key, title, unit = "us_per_position", "Time per position", "µs"
    panels = [(mode, key, title, unit, 1.0) for mode in (FORWARD, FORWARD_BACKWARD)]
    if any(row[FORWARD]["temporary_bytes"] for row in rows):
        panels.append((FORWARD, "temporary_bytes", "Temporary memory", "MB", 1e-6))
    figure = new_figure(4.6 * len(panels) + 1.4, 3.7 * len(scopes) + 0.7)
    axes = figure.subplots(len(scopes), len(panels), squeeze=False).flat
    depths: dict[int, list[str]] = {}
    for size, depth in sorted({(row["size"], row["depth"]) for row in rows}):
        depths.setdefault(size, []).append(str(depth))
    what = "Length" if rows[0]["axes"] == 1 else "Height and width"
    if key == "ms":
        what += ", depth"
        labels = {size: f"{size}\nd {', '.join(names)}" for size, names in depths.items()}
    else:
        what += f", depth {rows[0]['depth']}"
        labels = {size: str(size) for size in depths}
    for axis, (scope, panel) in zip(axes, product(scopes, panels), strict=True):
        mode, key, title, unit, factor = panel
        _draw_lines(axis, [row for row in rows if row["scope"] == scope], mode, key, factor)
        axis.set_title(f"{title}, {mode.replace('_', ' + ')}, scope {scope}")
        axis.set(xlabel=what, ylabel=unit)
        _scale(axis, labels)
    _save(figure, f"{TITLES[result['settings']['part']]}, batch {batch}", result, path)


@rc_context(LOOKS)
def plot_attention(result: dict[str, Any], path: Path) -> None:
    """Draws time and memory against positions, one line per mixer: maps above, sequences below.

    A cross at the head of a panel marks where the memory was not enough.
    """
    parts = [part for part in (GROWTH, SEQUENCES) if part in result["settings"]["parts"]]
    rows = [row for row in result["rows"] if row.get("part") in parts]
    modes = [mode for mode in (FORWARD, FORWARD_BACKWARD) if mode in rows[0]]
    panels = [(mode, "ms", "Time", "ms", 1.0) for mode in modes]
    if result["settings"]["memory"]:
        panels += [(mode, "temporary_bytes", "Temporary memory", "MB", 1e-6) for mode in modes]
    names = list(dict.fromkeys(row["mixer"] for row in rows))
    columns = min(len(panels), 2)
    lines = len(parts) * len(panels) // columns
    figure = new_figure(4.6 * columns + 1.4, 3.7 * lines + 0.7)
    axes = figure.subplots(lines, columns, squeeze=False).flat
    for axis, (part, panel) in zip(axes, product(parts, panels), strict=True):
        mode, key, title, unit, factor = panel
        own = [row for row in rows if row["part"] == part]
        _draw_lines(axis, own, mode, key, factor, "mixer", names)
        axis.set_title(f"{title}, {mode.replace('_', ' + ')}")
        axis.set(xlabel="Height and width" if part == GROWTH else "Length", ylabel=unit)
        _scale(axis, {row["size"]: str(row["size"]) for row in own})
    _save(figure, "Growth of one layer (x: out of memory)", result, path)


@rc_context(LOOKS)
def plot_models(result: dict[str, Any], path: Path) -> None:
    """Draws speed against published accuracy: one panel per mode, one line per family.

    Networks without a published accuracy are dotted lines at their speed; if none has one, bars.
    """
    modes = result["settings"]["modes"]
    figure = new_figure(6.2 * len(modes) + 2, 5.2)
    for axis, mode in zip(figure.subplots(1, len(modes), squeeze=False)[0], modes, strict=True):
        axis.set_title(TITLES[mode])
        if not any(row["top1"] for row in result["rows"]):
            _draw_bars(axis, result["rows"], mode)
            continue
        _draw_families(axis, result["rows"], mode)
        axis.set(xlabel="Images per second", ylabel="Published ImageNet top-1 (%)", xscale="log")
        _mark(axis.xaxis, (1, 1.5, 2, 3, 4, 5, 7))
        axis.margins(x=0.25, y=0.15)
    _save(figure, f"Whole networks, batch {result['settings']['batch']}", result, path)


@rc_context(LOOKS)
def plot_pareto(result: dict[str, Any], path: Path) -> None:
    """Draws accuracy over the paper's training time, and over measured training speed (Figure 4).

    The measured speeds are those of a report of `python -m zoo.benchmark models`.
    """
    figure = new_figure(14.4, 5.4)
    published, measured = figure.subplots(1, 2)
    kinds = dict.fromkeys(one.data for one in RESULTS)
    for data, color, marker in zip(kinds, COLORS, MARKERS, strict=False):
        rows = [one for one in RESULTS if one.seconds and one.data == data]  # slower and slower
        points = [(one.seconds, one.top1) for one in rows]
        style = {"color": color, "marker": marker, "lw": 1.5, "ms": 6, "label": data}
        published.plot(*zip(*points, strict=True), **style)
        for point, one in zip(points, rows, strict=True):
            depth = one.network.removeprefix("lambda_resnet")
            look = {"xytext": (1, -4), "textcoords": "offset points", "color": color, "fontsize": 8}
            look |= {"rotation": -50, "rotation_mode": "anchor", "va": "top"}  # they lie close
            published.annotate(f"{depth}@{one.image_size}", point, **look)
    published.set_title("LambdaResNets on 8 TPUv3 cores, bfloat16 (Table 19)")
    published.set(xlabel="Seconds to train on 1024 images", ylabel="Published ImageNet top-1 (%)")
    published.set_xscale("log")
    _mark(published.xaxis, (1, 2, 5))
    _draw_families(measured, result["rows"], TRAINING)
    measured.set_title(f"Training, batch {result['settings']['batch']}, {place(result)}")
    measured.set(xlabel="Images per second", ylabel="Published ImageNet top-1 (%)", xscale="log")
    _mark(measured.xaxis, (1, 1.5, 2, 3, 4, 5, 7))
    for axis, legend_at in ((published, "lower right"), (measured, "lower left")):
        axis.margins(x=0.2, y=0.15)
        axis.legend(loc=legend_at, fontsize=9)
    title = "Published accuracy over time; nothing was trained here"
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK)
    save_figure(figure, path)


@rc_context(LOOKS)
def plot_pathfinder(result: dict[str, Any], path: Path) -> None:
    """Draws test accuracy over the epochs: of every training, and the mean over a mixer's seeds."""
    figure = new_figure(12, 4.8)
    axis, examples = figure.subplots(1, 2, width_ratios=(5, 3))
    for row, color, marker in zip(result["rows"], COLORS, MARKERS, strict=False):
        curves = 100 * np.asarray(row["curves"])
        epochs = np.arange(1, curves.shape[1] + 1)
        axis.plot(epochs, curves.T, color=color, lw=0.8, alpha=0.5)
        style = {"color": color, "marker": marker, "lw": 2, "ms": 4, "label": row["mixer"]}
        axis.plot(epochs, curves.mean(0), **style)
    axis.set(xlabel="Epoch", ylabel="Test accuracy (%)", title="Thin lines: single seeds")
    axis.set_ylim(top=101)
    axis.legend(loc="best", fontsize=9)
    images = np.pad(draw_pathfinder(9, seed=0).images, PADS, constant_values=255)
    examples.imshow(np.vstack([np.hstack(list(images[i : i + 3])) for i in (0, 3, 6)]))
    examples.set_axis_off()
    examples.set_title("Asked for: the colour at the end of the marked path")
    title = f"Where does the marked path end? Equal parameters and steps, {place(result)}"
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK)
    save_figure(figure, path)


def _save(figure: Figure, what: str, result: dict[str, Any], path: Path) -> None:
    """Writes the title, what, how and on what it was measured, the legend, and the file."""
    settings = result["settings"]
    how = f"{settings['dtype']}, {result['backend']}{', XLA' if settings['xla'] else ''}"
    title = f"{what}, {how}, {place(result)}"
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK)
    lines = [line for axis in figure.axes for line in axis.get_legend_handles_labels()[0]]
    handles = {line.get_label(): line for line in lines}
    figure.legend(handles=list(handles.values()), loc="outside right upper")
    save_figure(figure, path)


def _mark(axis: Any, steps: tuple[float, ...]) -> None:
    """Marks a logarithmic axis at these steps of every power of ten."""
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


def _scale(axis: Axes, sizes: Mapping[int, str]) -> None:
    """Makes both axes logarithmic, with these labels of sizes."""
    axis.set_yscale("log")
    axis.set_xscale("log", base=2)
    _mark(axis.yaxis, (1, 3))
    ordered = sorted(sizes)
    # Labels of sizes that the next one all but covers are left out.
    covered = {size for size, after in pairwise(ordered) if after < 1.2 * size}
    axis.set_xticks(ordered, ["" if size in covered else sizes[size] for size in ordered])
    axis.xaxis.set_minor_locator(NullLocator())


def _draw_lines(
    axis: Axes,
    rows: list[dict[str, Any]],
    mode: str,
    key: str,
    factor: float,
    by: str = "implementation",
    names: Iterable[str] = (),
) -> None:
    """Draws a figure over sizes where there is one, a line for each of what `by` names.

    `names` are all that have lines in the picture, so that these look alike in every panel.
    """
    others = zip(cycle(COLORS), cycle(MARKERS))
    crosses: dict[int, int] = {}
    for name in names or dict.fromkeys(row[by] for row in rows):
        style: dict[str, Any] = {"label": name, "lw": 1.5, "ms": 4.5, **STYLES.get(name, {})}
        if name not in STYLES:
            style["color"], style["marker"] = next(others)
        own = [row for row in rows if row[by] == name]
        if not own:
            continue
        points = sorted((row["size"], factor * row[mode][key]) for row in own if row[mode][key])
        axis.plot([size for size, _ in points], [figure for _, figure in points], **style)
        for row in own:
            if (row[mode].get("reason") or "").startswith(OUT_OF_MEMORY):
                above = crosses[row["size"]] = crosses.get(row["size"], -1) + 1
                at_head = {"transform": axis.get_xaxis_transform(), "clip_on": False}
                axis.plot(row["size"], 0.98 - 0.05 * above, "x", color=style["color"], **at_head)


def _family(row: dict[str, Any]) -> str:
    """Returns the name with `*` for its depth, the first number: `lambda_resnet*_c4`."""
    prefix = "" if row["library"] == "lambda_keras" else f"{row['library']}."
    return prefix + re.sub(r"\d+", "*", row["model"], count=1)


def _short(row: dict[str, Any]) -> str:
    """Returns the short label of a network within its family: `50@160`."""
    depth = re.search(r"\d+", row["model"])
    overrides = "".join(f", {name}={value}" for name, value in row["overrides"].items())
    return f"{depth[0] if depth else ''}@{row['image_size']}{overrides}"


def _draw_families(axis: Axes, rows: list[dict[str, Any]], mode: str) -> None:
    looks = zip(cycle(COLORS), cycle(MARKERS))
    for i, family in enumerate(dict.fromkeys(map(_family, rows))):
        color, marker = next(looks)
        # On either side of the line, which falls; families that are close use different sides.
        beside = {"xytext": (-6, -12), "ha": "right"} if i % 2 else {"xytext": (6, 5), "ha": "left"}
        points = []
        for row in rows:
            speed, top1 = row[mode]["images_per_second"], row["top1"]
            if _family(row) != family or not speed:
                continue
            if top1:
                points.append((speed, top1))
                text = {"text": _short(row), "xy": (speed, top1), **beside}
            else:  # at the foot of the panel
                axis.axvline(speed, color=color, lw=1, ls=":")
                foot = {"xycoords": axis.get_xaxis_transform(), "ha": "right", "rotation": 90}
                text = {"text": row["entry"], "xy": (speed, 0), "xytext": (-2, 4), **foot}
            axis.annotate(**text, textcoords="offset points", color=color, fontsize=9)
        if points:
            speeds, accuracies = zip(*sorted(points), strict=True)
            style = {"color": color, "marker": marker, "lw": 1.5, "ms": 7}
            axis.plot(speeds, accuracies, label=family, **style)


def _draw_bars(axis: Axes, rows: list[dict[str, Any]], mode: str) -> None:
    rows = [row for row in rows if row[mode]["images_per_second"]]
    speeds = [row[mode]["images_per_second"] for row in rows]
    bars = axis.barh([row["entry"] for row in rows], speeds, color=COLORS[0], height=0.6)
    axis.bar_label(bars, fmt="{:.3g}", padding=4)
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    axis.margins(x=0.12)
    axis.set(xlabel="Images per second")


PICTURES = {
    "attention": plot_attention,
    "layer": plot_layer,
    "models": plot_models,
}  # by the name of the benchmark
