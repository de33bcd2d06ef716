"""Figures of benchmarks: `python -m tools.plots layer.json`."""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise, product
from pathlib import Path
from typing import Any

import yaml
from pydantic_settings import CliPositionalArg

from tools.choices import timm_rows
from zoo.cli.run import run_command
from zoo.cli.settings import Settings
from zoo.errors import needs_extra
from zoo.measurements import FORWARD, FORWARD_BACKWARD, place, read_report
from zoo.plots.style import INK, PALE, TEST, TRAIN, new_figure, open_frame, save_figure

with needs_extra("train"):
    from matplotlib.axes import Axes
    from matplotlib.ticker import LogLocator, NullLocator

ACCURACY = "accuracy", "accuracy_sd"
# Kinds of layers, by a pattern of row names.
KINDS = {"convolutions": "^(convolution|squeeze)", "attention": "attention", "lambda layers": ""}
LOOKS = yaml.safe_load(Path(__file__).with_name("plots.yaml").read_text(encoding="utf-8"))


class Config(Settings):
    """Draws a figure next to each JSON file of zoo.benchmark, compiled or experiment."""

    files: CliPositionalArg[list[Path]]
    """JSON files (--output of a command)."""


def main(arguments: Sequence[str]) -> None:
    """Reads the reports and draws."""
    for path in Config.from_command_line(arguments, "python -m tools.plots").files:
        draw(read_report(path), path.with_suffix(".png"))


def draw(report: Mapping[str, Any], path: Path) -> None:
    """Draws the figures of a report; all but the main one add an ending to the file name."""
    if report["benchmark"] == "steps":
        return plot_steps(report, path)
    if report["benchmark"] == "experiment":
        plot_times(report, path.with_stem(f"{path.stem}_times"))
        plot_data_sizes(report, path.with_stem(f"{path.stem}_data"))
        return plot_claims(report, path)
    layers = [row for row in report["rows"] if FORWARD_BACKWARD in row]
    if layers:
        plot_layers({**report, "rows": layers}, path)
        plot_training(report, layers, path.with_stem(f"{path.stem}_training"))
    if networks := timm_rows(report["rows"]):
        plot_networks(report, networks, path.with_stem(f"{path.stem}_networks"))


def plot_layers(result: Mapping[str, Any], path: Path) -> None:
    """Draws time and memory against map size: one row per scope, one line per implementation.

    On maps of one depth, time is per position, to show its growth. Only maps with the batch size of
    the first one are drawn. A cross at the top of a panel marks missing measurements.
    """
    batch = result["rows"][0]["batch"]
    rows = [row for row in result["rows"] if row["batch"] == batch]
    scopes = sorted({row.get("scope", 0) for row in rows})
    one_depth = len({row["depth"] for row in rows}) == 1
    measured = rows[0][FORWARD]
    time = "ideal_ms" if "ideal_ms" in measured else "ms"
    if one_depth and "us_per_position" in measured:
        time = "us_per_position"
    panels = [(mode, time) for mode in (FORWARD, FORWARD_BACKWARD)]
    if any(row[FORWARD]["temporary_bytes"] for row in rows):
        panels.append((FORWARD, "temporary_bytes"))
    settings = result["settings"]
    how = f"{settings['dtype']}, {result['backend']}{', XLA' if settings.get('xla') else ''}"
    name = f"One layer, batch {batch}, {how}, {place(result)}"
    figure = new_figure(4.6 * len(panels) + 1.4, 3.7 * len(scopes) + 0.7, name)
    axes = figure.subplots(len(scopes), len(panels), squeeze=False).flat
    for axis, (scope, (mode, key)) in zip(axes, product(scopes, panels), strict=True):
        title, unit, _ = LOOKS["panels"][key]
        _draw_lines(axis, [row for row in rows if row.get("scope", 0) == scope], mode, key)
        suffix = f", scope {scope}" if scope else ""
        heading = f"{title}, {mode.replace('_', ' + ')}{suffix}"
        axis.set_title(heading, loc="left", fontsize=10.5, color=INK)
        depth = f"depth {rows[0]['depth']}" if one_depth else "depth"
        what = "Length" if rows[0]["axes"] == 1 else "Height and width"
        axis.set(xlabel=f"{what}, {depth}", ylabel=unit)
        _scale(axis, rows, one_depth)
    lines = [line for axis in figure.axes for line in axis.get_legend_handles_labels()[0]]
    handles = {line.get_label(): line for line in lines}
    figure.legend(handles=list(handles.values()), loc="outside right upper", frameon=False)
    save_figure(figure, path)


def plot_training(result: Mapping[str, Any], rows: Sequence[Any], path: Path) -> None:
    """Draws three layers in training on maps of one depth, in a figure for phone screens."""
    names = LOOKS["training"]
    batch = rows[0]["batch"]
    rows = [row for row in rows if row["batch"] == batch]
    rows = [row for name in names for row in rows if row.get("mixer") == name]
    if {row["mixer"] for row in rows} != names.keys() or len({row["depth"] for row in rows}) > 1:
        return
    figure = new_figure(4.6, 4.2, LOOKS["training_claim"])
    axis = figure.subplots()
    _draw_lines(axis, rows, FORWARD_BACKWARD, "ms")
    _scale(axis, rows, one_depth=True)
    sizes = sorted({row["size"] for row in rows})
    axis.set_xticks(sizes, [f"{size}x{size}" for size in sizes])
    axis.set_xlim(right=2.6 * sizes[-1])  # place for names, and for crosses above them
    axis.set_ylim(top=2 * axis.get_ylim()[1])
    axis.set(xlabel=f"Size of the map, depth {rows[0]['depth']}", ylabel="Training step, ms")
    lines: list[Any] = list(axis.lines)
    placement: dict[str, Any] = {"xytext": (7, 0), "textcoords": "offset points", "va": "center"}
    for line in [line for line in lines if line.get_label() in names]:
        x, y = line.get_xydata()[-1]
        above = {} if x == sizes[-1] else {"xytext": (-7, 3), "ha": "right", "va": "bottom"}
        axis.annotate(names[line.get_label()], (x, y), **{**placement, **above})
    crosses = [line for line in lines if line.get_marker() == "x"]
    reasons = [row[FORWARD_BACKWARD]["reason"] for row in rows if row[FORWARD_BACKWARD]["reason"]]
    for line, reason in zip(crosses, reasons, strict=True):
        at = {**placement, "xycoords": line.get_transform()}
        axis.annotate(reason.partition(":")[0], line.get_xydata()[0], **at)
    how = f"Batch {batch}, {result['settings']['dtype']}, {place(result)}"
    figure.text(0.99, 0.01, how, ha="right", fontsize=9, color=INK)
    figure.set_layout_engine("constrained", rect=(0, 0.05, 1, 0.95))
    save_figure(figure, path)


def plot_steps(result: Mapping[str, Any], path: Path) -> None:
    """Draws the time of the next position against the length of the sequence."""
    rows, settings = result["rows"], result["settings"]
    how = f"{settings['dtype']}, {result['backend']}{', XLA' if settings.get('xla') else ''}"
    figure = new_figure(8.6, 4.2, f"One layer, batch {settings['batch']}, {how}, {place(result)}")
    axis = figure.subplots()
    title, unit, _ = LOOKS["panels"]["ms_per_step"]
    _draw_lines(axis, rows, FORWARD, "ms_per_step")
    axis.set_title(title, loc="left", fontsize=10.5, color=INK)
    axis.set(xlabel=f"Length, depth {settings['depth']}", ylabel=unit)
    _scale(axis, rows, one_depth=True)
    axis.legend(frameon=False)
    save_figure(figure, path)


def plot_networks(result: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draws images per second of networks, in timm's columns, in inference and training."""
    dtypes = result["settings"]["dtype"]
    dtypes = dtypes if isinstance(dtypes, str) else ", ".join(dtypes)
    name = f"Networks, {dtypes}, {result['backend']}, {place(result)}"
    figure = new_figure(11, 1.6 + 0.32 * len(rows), name)
    panels = {"infer": "Inference, images/s", "train": "Training, images/s"}
    for axis, (kind, title) in zip(figure.subplots(1, 2, sharey=True), panels.items(), strict=True):
        speeds = [row.get(f"{kind}_samples_per_sec", 0) for row in rows]
        colors = [TEST if "lambda" in row["model"] else TRAIN for row in rows]
        axis.barh(range(len(rows)), speeds, color=colors, height=0.62)
        for y, (row, speed) in enumerate(zip(rows, speeds, strict=True)):
            batch = f" (batch {row[f'{kind}_batch_size']})" if speed else " none"
            axis.text(speed, y, f" {speed:,.0f}{batch}", va="center", fontsize=8.5, color=INK)
        axis.set_title(title, loc="left", fontsize=10.5, color=INK)
        axis.set_xlim(0, 1.35 * max(*speeds, 1))
        sizes = (next(row[key] for key in row if key.endswith("img_size")) for row in rows)
        named = [f"{row['model']}, {size}" for row, size in zip(rows, sizes, strict=True)]
        axis.set_yticks(range(len(rows)), named)
        axis.invert_yaxis()
        open_frame(axis)
    save_figure(figure, path)


def plot_claims(result: Mapping[str, Any], path: Path) -> None:
    """Draws the difference in accuracy of every claim, with its confidence interval."""
    claims = [row for row in result["rows"] if row.get("metric") == "accuracy"]
    figure = new_figure(8.6, 1.6 + 0.3 * len(claims), f"Differences over seeds, {place(result)}")
    axis = figure.subplots()
    axis.axvline(0, color=INK, lw=0.8)
    for y, row in enumerate(claims):
        color = LOOKS["verdicts"][row["verdict"]]
        axis.plot([row["low"], row["high"]], [y, y], color=color, lw=2, label=row["verdict"])
        axis.plot(row["difference"], y, "o", color=color)
    axis.set_yticks(range(len(claims)), [f"{row['table']}: {row['claim']}" for row in claims])
    axis.set_ylim(len(claims), -1)
    axis.set_xlabel("Difference in accuracy, points, with 95 % interval")
    lines, verdicts = axis.get_legend_handles_labels()
    entries = dict(zip(verdicts, lines, strict=True))
    axis.legend(
        entries.values(), entries, loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False
    )
    open_frame(axis)
    save_figure(figure, path)


def plot_times(result: Mapping[str, Any], path: Path) -> None:
    """Draws the time of a training step and the accuracies of the rows that were timed."""
    several = {row["row"]: row for row in _of_several_seeds(result)}
    rows = [row for row in several.values() if row.get("ms") and not row["train_images"]]
    if not rows:
        return
    rows.sort(key=lambda row: row["ms"])
    titles = "Training step, ms", "Accuracy, %", "Accuracy on moved images, %"
    title = f"Time, accuracy and deviation over seeds, {place(result)}"
    figure = new_figure(10, 1.2 + 0.22 * len(rows), title)
    axes = figure.subplots(1, len(titles), sharey=True)
    for axis, key, heading in zip(axes, ("ms", "accuracy", "moved"), titles, strict=True):
        for y, row in enumerate(rows):
            kind = next(kind for kind, part in KINDS.items() if re.search(part, row["row"]))
            style = {"color": LOOKS["kinds"][kind], "label": kind}
            axis.errorbar(row[key], y, xerr=row.get(f"{key}_sd"), fmt="o", **style)
        axis.set_title(heading, loc="left", fontsize=10.5, color=INK)
        axis.grid(axis="y", color=PALE, lw=0.6)
        open_frame(axis)
    axes[0].set_xlim(0)
    axes[0].set_yticks(range(len(rows)), [row["row"] for row in rows])
    axes[0].set_ylim(len(rows), -1)
    kinds = {label: line for line, label in zip(*axes[0].get_legend_handles_labels(), strict=True)}
    figure.legend(kinds.values(), kinds, loc="outside lower center", ncols=3, frameon=False)
    save_figure(figure, path)


def plot_data_sizes(result: Mapping[str, Any], path: Path) -> None:
    """Draws accuracy against the number of training images, for rows that differ in it."""
    rows = _of_several_seeds(result)
    tables = {row["table"] for row in rows if row["train_images"]}
    lines: dict[str, dict[float, Any]] = {}
    for row in rows:
        if row["table"] in tables:
            images = row["train_images"]
            name = row["row"].removesuffix(f", {images} images")
            lines.setdefault(name, {})[images or math.inf] = row
    if not lines:
        return
    sizes = sorted(set().union(*lines.values()))
    figure = new_figure(6.4, 4.2, f"Accuracy by training images, {place(result)}")
    axis = figure.subplots()
    for (name, by_size), color in zip(lines.items(), cycle([TEST, TRAIN, INK]), strict=False):
        x = [sizes.index(size) for size in sorted(by_size)]
        means, errors = ([by_size[size][key] for size in sorted(by_size)] for key in ACCURACY)
        axis.errorbar(x, means, errors, marker="o", label=name, color=color)
    names = ["all" if math.isinf(size) else f"{size:,}" for size in sizes]
    axis.set_xticks(range(len(sizes)), names)
    axis.set(xlabel="Training images", ylabel="Accuracy, %, and deviation over seeds")
    axis.legend(frameon=False)
    open_frame(axis)
    save_figure(figure, path)


def _of_several_seeds(result: Mapping[str, Any]) -> list[Any]:
    return [row for row in result["rows"] if row.get("accuracy_sd") is not None]


def _scale(axis: Axes, rows: list[dict[str, Any]], one_depth: bool) -> None:
    """Makes both axes logarithmic, and labels the sizes, with depths where these differ."""
    sizes: dict[int, str] = {}
    for size, depth in sorted({(row["size"], row["depth"]) for row in rows}):
        before = f"{sizes[size]}, " if size in sizes else f"{size}\nd "
        sizes[size] = str(size) if one_depth else f"{before}{depth}"
    open_frame(axis)
    axis.grid(color=PALE, lw=0.8)
    axis.set_yscale("log")
    axis.set_xscale("log", base=2)
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axis.yaxis.set_major_formatter("{x:g}")
    # Labels that the next one would almost cover are left out.
    covered = {size: "" for size, after in pairwise(sizes) if after < 1.3 * size}
    axis.set_xticks(list(sizes), list({**sizes, **covered}.values()))
    for scale in (axis.xaxis, axis.yaxis):
        scale.set_minor_locator(NullLocator())


def _draw_lines(axis: Axes, rows: list[dict[str, Any]], mode: str, key: str) -> None:
    """Draws a measurement against size, one line per implementation."""
    _, _, factor = LOOKS["panels"][key]
    colors, markers = map(cycle, LOOKS["others"].values())
    crosses: dict[int, int] = {}
    named: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        named.setdefault(row.get("implementation") or row["mixer"], []).append(row)
    for name, measured in named.items():
        style: dict[str, Any] = {"label": name, "lw": 1.5, "ms": 4.5, "zorder": 2}
        style |= LOOKS["styles"].get(name) or {"color": next(colors), "marker": next(markers)}
        points = {row["size"]: factor * row[mode][key] for row in measured if row[mode][key]}
        axis.plot(sorted(points), [points[size] for size in sorted(points)], **style)
        for row in measured:
            if row[mode]["reason"]:
                above = crosses[row["size"]] = crosses.get(row["size"], -1) + 1
                at_head = {"transform": axis.get_xaxis_transform(), "clip_on": False}
                axis.plot(row["size"], 0.98 - 0.05 * above, "x", color=style["color"], **at_head)


if __name__ == "__main__":
    run_command(main)
