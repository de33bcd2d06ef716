"""Demo page of a detector: the objects in an image."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np

from zoo.demo.command import DemoConfig
from zoo.demo.page import HELP, page_of, picture, telling_what_is_wrong, upload
from zoo.detection.detector import Detector, choose
from zoo.detection.plots import draw_detections
from zoo.errors import require
from zoo.inference.images import read_pixels

THRESHOLD = 0.5
HEADS = ["object", "score", "left", "top", "width", "height"]
NO_MAPS = "Lambda maps are of classifiers: a detector has none."


@dataclass(frozen=True)
class Demo:
    """Functions of the page for one detector."""

    detector: Detector

    def detect(
        self, photo: str | None, threshold: float
    ) -> tuple[np.ndarray | None, list[list[Any]]]:
        """Detects the objects in an image; returns a figure and a table row for each of them."""
        if photo is None:
            return None, []
        with telling_what_is_wrong(photo):
            image = read_pixels(Path(photo))
            detections = self.detector(image, threshold)
        rows = [
            [
                detection["name"],
                f"{detection['score']:.1%}",
                *(round(side) for side in detection["bbox"]),
            ]
            for detection in detections
        ]
        return draw_detections(image, detections, self.detector.categories), rows

    def build(self) -> gr.Blocks:
        """Lays the page out."""
        text = HELP.format(resized="resized", result="average precision")
        with page_of(self.detector.title, f"{text} {NO_MAPS}") as page:
            with gr.Row():
                photo = upload()
                shown = picture("objects", "Objects")
            threshold = gr.Slider(0, 1, THRESHOLD, step=0.05, label="Lowest score", buttons=[])
            table = gr.Dataframe(headers=HEADS, interactive=False, label="Objects, in pixels")
            gr.on(
                [photo.change, threshold.input],
                self.detect,
                [photo, threshold],
                [shown, table],
                api_name="detect",
                concurrency_id="model",
                trigger_mode="always_last",
            )
        return page


def load(config: DemoConfig) -> Demo:
    """Loads the detector that the settings name."""
    require(
        config.precision is None, "precision: expected none with a detector", repr(config.precision)
    )
    return Demo(choose(config).load())
