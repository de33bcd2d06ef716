"""Demo page of a classifier: predictions for an image, and lambda maps."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np

from lambda_keras.applications import preprocess_input
from zoo.demo.command import DemoConfig
from zoo.demo.page import HELP, page_of, picture, telling_what_is_wrong, upload
from zoo.inference.classifier import Classifier
from zoo.inference.lambda_maps import lambda_layers, lambda_maps
from zoo.inference.source.kinds import choose
from zoo.plots.lambda_maps import VIEW, draw_maps, draw_position

TOP = 5
WIDE = 240  # pixels for the name of a layer; on phones, controls are stacked
MEAN = -1  # mean over heads, in place of the index of a head
HELP_MAPS = (
    "At each position of its grid, a lambda layer makes its output from the values of all "
    "positions. **Click on the picture** to choose the position, and see with which weights: red "
    "adds a value, blue subtracts it, gray leaves it out. The content map weighs a place by what "
    "is there, the position map by where it lies as seen from the chosen position."
)
RESIZED = {"crop": "resized and cropped", "pad": "resized and padded", "squash": "resized"}
NOTHING = (None, "", None)
NO_MAPS = "{} has no lambda layers, so there is no map of where it looked."


@dataclass(frozen=True)
class Demo:
    """Functions of the page for one classifier."""

    classifier: Classifier
    draw_maps = staticmethod(draw_maps)

    def classify(self, photo: str | None) -> dict[str, float] | None:
        """Returns the most probable classes of an image and their probabilities."""
        if photo is None:
            return None
        with telling_what_is_wrong(photo):
            top = self.classifier(Path(photo), TOP)
        names = [score.name for score in top]
        return {
            name if names.count(name) == 1 else f"{name} ({index})": probability
            for index, name, probability in top
        }

    def look(
        self, photo: str | None, layer: str, head: int, x: int, y: int
    ) -> tuple[np.ndarray | None, str, np.ndarray | None]:
        """Draws the position at pixel (x, y) of the preprocessed image, and its lambda maps."""
        if photo is None:
            return NOTHING
        with telling_what_is_wrong(photo):
            view = self.classifier.view(Path(photo))
            grid = lambda_layers(self.classifier.model)[layer]
            heads = self.classifier.model.get_layer(layer).num_heads
            if head not in (MEAN, *range(heads)):
                raise ValueError(f"{layer} has {heads} heads")
            row, column = y * grid[0] // len(view), x * grid[1] // len(view)
            maps = lambda_maps(self.classifier.model, layer, preprocess_input(view), row, column)
        titled_maps = {
            "Content map: weight of a place by what is there": maps.content,
            "Position map: weight of a place by where it lies": maps.position,
        }
        shown = {
            title: weights.mean(0) if head == MEAN else weights[head]
            for title, weights in titled_maps.items()
            if weights is not None
        }
        who = "mean of all heads" if head == MEAN else f"head {head + 1}"
        where = f"row {row + 1}, column {column + 1} of {grid[0]} x {grid[1]}"
        return (
            draw_position(view, grid, row, column),
            f"**What goes into the output at {where}** ({layer}, {who})",
            self.draw_maps(view, shown, row, column),
        )

    def build(self) -> gr.Blocks:
        """Lays the page out."""
        name, layers = self.classifier.name, lambda_layers(self.classifier.model)
        resized = RESIZED[self.classifier.preprocessing.resize]
        with page_of(name, HELP.format(resized=resized, result="accuracy")) as page:
            with gr.Row():
                photo = upload()
                answer = gr.Label(label="Most probable classes", num_top_classes=TOP)
            predicted = photo.change(
                self.classify, photo, answer, api_name="predict", concurrency_id="model"
            )
            if layers:
                self._build_maps(photo, predicted, layers)
            else:
                gr.Markdown(NO_MAPS.format(name))
        return page

    def _build_maps(self, photo: Any, predicted: Any, layers: dict[str, tuple[int, int]]) -> None:
        model: Any = self.classifier.model
        size = model.input_shape[1]

        def in_pixels(click: gr.SelectData) -> list[int]:  # of the preprocessed image
            return [i * size // VIEW for i in click.index]

        heads = range(max(model.get_layer(name).num_heads for name in layers))
        gr.Markdown(f"## Where it looked\n{HELP_MAPS}")
        names = [(f"{name} ({h} x {w})", name) for name, (h, w) in layers.items()]
        numbers = [("mean of all heads", MEAN), *((f"head {i + 1}", i) for i in heads)]
        with gr.Row():
            layer = gr.Dropdown(names, label="Lambda layer", min_width=WIDE)
            head = gr.Dropdown(numbers, value=MEAN, label="Head", min_width=WIDE)
            x, y = (
                gr.Slider(0, size - 1, size // 2, step=1, label=f"Pixels {axis}", buttons=[])
                for axis in ("from the left", "from the top")
            )
        with gr.Row():
            with gr.Column(scale=1):
                gr.Markdown("**What the network sees** (click on it)")
                view = picture("view", "What the network sees")
            with gr.Column(scale=2):
                title = gr.Markdown()
                maps = picture("maps", "Where it looked")
        place, shown = [photo, layer, head, x, y], [view, title, maps]
        options: dict[str, Any] = {"concurrency_id": "model", "trigger_mode": "always_last"}
        changes = [control.input for control in (layer, head, x, y)]
        gr.on(changes, self.look, place, shown, api_name="look", **options)
        options["api_visibility"] = "private"
        predicted.success(self.look, place, shown, **options)
        predicted.failure(lambda: NOTHING, None, shown, **options)
        clicked = view.select(in_pixels, None, [x, y], **options)
        clicked.then(self.look, place, shown, **options)


def load(config: DemoConfig, choose: Callable[[DemoConfig], Any] = choose) -> Demo:
    """Loads the classifier that the settings name."""
    return Demo(choose(config).load().computing_in(config.precision))
