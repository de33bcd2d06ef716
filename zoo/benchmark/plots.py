"""Pictures of benchmarks."""

import re
from pathlib import Path
from typing import Any

from zoo.benchmark.cases import BASELINE, LAYER, MODES, POSITION
from zoo.benchmark.networks import ZooNetwork
from zoo.benchmark.report import place
from zoo.benchmark.subjects import FORWARD, TRAINING
from zoo.errors import needs_extra
from zoo.plots.style import INK, PALE, WRONG, new_figure, save_figure

with needs_extra("train"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

AUTO = "#c0d2ed"
COLORS = ("#2a9d8f", "#e9a23b", "#7b5ea7", "#4d7c3a", "#c2599b", "#8c6d52", "#5fa8d3", "#8a93a6")
_TITLES = {LAYER: "One lambda layer", POSITION: "Position lambdas of one layer"}
_MODE_TITLES = {FORWARD: "Forward", TRAINING: "Training step"}
MARKERS = "osD^vP<>"


def plot_layer(result: dict[str, Any], path: Path) -> None:
    """Draws time and memory against map size: one row per scope, one line per implementation.

    Only the maps with the batch of the first one are drawn; others would not be comparable.

    Args:
        result: Report of `python -m zoo.benchmark layer`.
        path: PNG file to write.
    """
    batch = result["rows"][0]["batch"]
    rows = [row for row in result["rows"] if row["batch"] == batch]
    scopes = sorted({row["scope"] for row in rows})
    panels = [(mode, "ms", "ms", 1.0) for mode in MODES]
    if any(row[FORWARD]["temporary_bytes"] for row in rows):
        panels.append((FORWARD, "temporary_bytes", "MB", 1e-6))
    figure = new_figure(4.6 * len(panels) + 1.4, 3.7 * len(scopes) + 0.7)
    _head(figure, f"{_TITLES[result['settings']['part']]}, batch {batch}", result)
    axes = figure.subplots(len(scopes), len(panels), squeeze=False)
    titles = {"ms": "Time", "MB": "Temporary memory"}
    for row_of_axes, scope in zip(axes, scopes, strict=True):
        for axis, (mode, figure_name, unit, factor) in zip(row_of_axes, panels, strict=True):
            lines = _lines([row for row in rows if row["scope"] == scope], mode, figure_name)
            _draw(axis, lines, factor)
            name = mode.replace("_", " + ")
            axis.set_title(
                f"{titles[unit]}, {name}, scope {scope}", loc="left", fontsize=10.5, color=INK
            )
            axis.set_ylabel(unit, color=INK)
            _ticks(axis, {(row["size"], row["depth"]) for row in rows})
    _legend(figure)
    save_figure(figure, path)


def plot_models(result: dict[str, Any], path: Path) -> None:
    """Draws speed against published accuracy: one panel per mode, one line per family.

    Networks without a published accuracy are dotted lines at their speed.

    Args:
        result: Report of `python -m zoo.benchmark models`.
        path: PNG file to write.
    """
    modes = result["settings"]["modes"]
    figure = new_figure(6.2 * len(modes) + 2, 5.2)
    _head(figure, f"Whole networks, batch {result['settings']['batch']}", result)
    for axis, mode in zip(figure.subplots(1, len(modes), squeeze=False)[0], modes, strict=True):
        _draw_families(axis, result["rows"], mode)
        axis.set_title(_MODE_TITLES[mode], loc="left", fontsize=10.5, color=INK)
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 7)))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.margins(x=0.25, y=0.15)
        axis.set_xlabel("Images per second", color=INK)
        axis.set_ylabel("Published ImageNet top-1 (%)", color=INK)
        _quiet(axis)
    _legend(figure)
    save_figure(figure, path)


def _head(figure: Figure, what: str, result: dict[str, Any]) -> None:
    """Writes the title: what, how and on what it was measured."""
    settings = result["settings"]
    xla = ", XLA" if settings["xla"] else ""
    figure.suptitle(
        f"{what}, {settings['dtype']}, {result['backend']}{xla}, {place(result)}",
        x=0.01,
        ha="left",
        fontsize=13,
        fontweight="bold",
        color=INK,
    )


def _legend(figure: Figure) -> None:
    handles = {
        handle.get_label(): handle
        for axis in figure.axes
        for handle in axis.get_legend_handles_labels()[0]
    }
    figure.legend(
        handles=list(handles.values()),
        loc="outside right upper",
        frameon=False,
        labelcolor=INK,
    )


def _family(row: dict[str, Any]) -> str:
    """Returns the name with `*` for its depth, the first number: `lambda_resnet*_c4`."""
    prefix = "" if row["library"] == ZooNetwork.library else f"{row['library']}."
    return prefix + re.sub(r"\d+", "*", row["model"], count=1)


def _short(row: dict[str, Any]) -> str:
    """Returns what tells a network from others of its family: `50@160`."""
    depth = re.search(r"\d+", row["model"])
    overrides = "".join(f", {name}={value}" for name, value in row["overrides"].items())
    return f"{depth[0] if depth else ''}@{row['image_size']}{overrides}"


def _draw_families(axis: Axes, rows: list[dict[str, Any]], mode: str) -> None:
    families: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        families.setdefault(_family(row), []).append(row)
    for i, (family, members) in enumerate(families.items()):
        color = COLORS[i % len(COLORS)]
        # On either side of the line, which falls; families that are close use different sides.
        beside = {"xytext": (-6, -12), "ha": "right"} if i % 2 else {"xytext": (6, 5), "ha": "left"}
        points = []
        for row in members:
            speed, top1 = row[mode]["images_per_second"], row["top1"]
            if not speed:
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
            style = {"color": color, "marker": MARKERS[i % len(MARKERS)], "lw": 1.5, "ms": 7}
            axis.plot(speeds, accuracies, label=family, **style)


def _lines(rows: list[dict[str, Any]], mode: str, name: str) -> dict[str, list[tuple]]:
    """Returns (map size, figure) by implementation, where there is a figure."""
    lines: dict[str, list[tuple]] = {}
    for row in sorted(rows, key=lambda row: row["size"]):
        points = lines.setdefault(row["implementation"], [])
        if row[mode][name]:
            points.append((row["size"], row[mode][name]))
    return lines


def _draw(axis: Axes, lines: dict[str, list[tuple]], factor: float) -> None:
    others = 0
    for name, points in lines.items():
        if name == "auto":  # a broad band under the line of whatever it takes
            style = {"color": AUTO, "lw": 9, "solid_capstyle": "round", "zorder": 1}
            style |= {"marker": "o", "ms": 14}  # seen where a single size makes no line
        elif name == BASELINE:
            style = {"color": WRONG, "lw": 2.2, "marker": "s", "ms": 5}
        else:
            style = {
                "color": COLORS[others % len(COLORS)],
                "marker": MARKERS[others % len(MARKERS)],
                "lw": 1.5,
                "ms": 4.5,
            }
            others += 1
        label = f"{name} (the paper's)" if name == BASELINE else name
        sizes, figures = [size for size, _ in points], [factor * number for _, number in points]
        axis.plot(sizes, figures, label=label, **style)


def _ticks(axis: Axes, sizes: set[tuple[int, int]]) -> None:
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.xaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    depths: dict[int, list[int]] = {}
    for size, depth in sorted(sizes):
        depths.setdefault(size, []).append(depth)
    labels = [f"{size}x{size}\nd {', '.join(map(str, d))}" for size, d in depths.items()]
    axis.set_xticks(list(depths), labels)
    axis.set_xlabel("Map size and depth", color=INK)
    _quiet(axis)


def _quiet(axis: Axes) -> None:
    axis.grid(color=PALE, lw=0.8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(colors=INK)
