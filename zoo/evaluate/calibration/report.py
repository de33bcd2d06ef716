"""Printed tables, JSON and figures of calibration."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from zoo.evaluate.calibration.fit import Calibration
from zoo.evaluate.calibration.plots import plot_reliability
from zoo.evaluate.report import SELECTION, show, table, threshold_table
from zoo.evaluate.scores import Scores
from zoo.plots.classification import plot_selection

RELIABILITY, CALIBRATED = "reliability.png", "calibration.png"


@dataclass(frozen=True)
class Reliability:
    """Reliability of all scores, and the calibration if a temperature was fitted."""

    scores: Scores
    calibration: Calibration | None = None
    figures: ClassVar[Sequence[str]] = (RELIABILITY, CALIBRATED)

    def as_json(self) -> dict[str, Any] | None:
        return self.calibration and self.calibration.as_json()

    def print_tables(self) -> None:
        if (fit := self.calibration) is None:
            return
        head = (
            f"Temperature {fit.temperature:.4f}, fitted to a half of {fit.images_fitted:,} "
            f"images with {fit.errors_fitted:,} errors"
        ) + ": none can be fitted without errors" * (not fit.errors_fitted)
        rows = [
            ("cross-entropy loss", fit.before.loss, fit.after.loss),
            ("calibration error", fit.before.calibration_error, fit.after.calibration_error),
        ]
        half = table(("on the other half", "before", "after"), rows, ".4f")
        show(head, half, *threshold_table(fit.after, " with this temperature, on the other half"))

    def draw(self, title: str, folder: Path) -> None:
        heading = f"{title}: calibration error {self.scores.calibration_error:.4f}"
        plot_reliability(self.scores.reliability, heading, folder / RELIABILITY)
        if (fit := self.calibration) is None:
            return
        before, after = fit.before, fit.after
        errors = f"{before.calibration_error:.4f}, {after.calibration_error:.4f}"
        plot_reliability(
            after.reliability,
            f"{title}: calibration error {errors} with temperature {fit.temperature:.3f}",
            folder / CALIBRATED,
            before.reliability,
        )
        # Replaces the figure of all images.
        curves = {"before": before.selection, "after calibration": after.selection}
        plot_selection(curves, f"{title}: images that a threshold keeps", folder / SELECTION)
