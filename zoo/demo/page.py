"""The page of `zoo.demo`: predictions for an image, and lambda maps."""

import os
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lambda_keras.applications import preprocess_input
from zoo.errors import needs_extra
from zoo.inference.classifier import Classifier
from zoo.inference.lambda_maps import lambda_layers, lambda_maps
from zoo.plots.lambda_maps import VIEW, draw_maps, draw_position

with needs_extra("demo"):
    import gradio as gr
    from gradio.themes import Default
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import PlainTextResponse

TOP = 5
KEPT = 3600  # seconds that images and pictures stay on the server's disk
WIDE = 240  # pixels that the name of a layer takes; a telephone shows no two beside each other
MEAN = -1  # in place of the number of a head
HELP = (
    "Drop an image (JPEG, PNG, WebP, ...). It is resized and cropped as when the accuracy of "
    "the network was measured, and the server deletes it within two hours."
)
HELP_MAPS = (
    "At each position of its grid, a lambda layer makes its output from the values of all "
    "positions. **Click on the picture** to choose the position, and see with which weights: red "
    "adds a value, blue subtracts it, grey leaves it out. The content map weighs a place by what "
    "is there, the position map by where it lies as seen from the chosen position."
)
# Gradio lays the arrow of a dropdown over the end of its text.
CSS = "input[role=combobox] { padding-right: 28px !important; text-overflow: ellipsis; }"
NOTHING = (None, "", None)
NOT_UPLOADED = "expected an image that was uploaded to this page"
NO_MAPS = "{} has no lambda layers, so there is no map of where it looked."


def serve(
    classifier: Classifier, host: str, port: int, password: str | None, is_private: bool
) -> None:
    """Serves the page, to those who know the password if there is one, until it is interrupted.

    If the address is private, which only this computer can reach, requests that name another one
    get nothing: a foreign page has pointed its own name here.
    """
    names = (host, f"[{host}]", "127.0.0.1", "[::1]", "localhost")
    # What ends services ends them like Ctrl+C, after which images are deleted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    page = Demo(classifier).build()
    page.launch(
        server_name=host,
        server_port=port,
        share=False,
        quiet=True,
        prevent_thread_lock=True,
        max_file_size="50mb",
        footer_links=[],
        theme=Default(primary_hue="blue"),
        css=CSS,
        run_history=False,
        auth=None if password is None else _asks_for(password),
        auth_message="Any name, and the password of this page.",
        app_kwargs={
            "middleware": [
                Middleware(TrustedHostMiddleware, names if is_private else ["*"], False),
                Middleware(_NoUrls),
            ]
        },
    )
    print(f"Open {page.local_url} in a browser; Ctrl+C ends.", flush=True)
    page.block_thread()


@dataclass(frozen=True)
class Demo:
    """Functions of the page for one model."""

    classifier: Classifier

    def ask(self, photo: str | None) -> dict[str, float] | None:
        """Returns the most probable classes of an image and their probabilities.

        Raises:
            gr.Error: If it is unreadable; the page shows the message.
        """
        if photo is None:
            return None
        with _telling_what_is_wrong(photo):
            (answer,) = self.classifier.ask([Path(photo)], TOP)
        names = [guess.name for guess in answer.top]
        return {
            f"{guess.name} ({guess.index})" if names.count(guess.name) > 1 else guess.name: (
                guess.probability
            )
            for guess in answer.top
        }

    def look(
        self, photo: str | None, layer: str, head: int, x: int, y: int
    ) -> tuple[np.ndarray | None, str, np.ndarray | None]:
        """Draws what the network sees of an image, and the maps of one position over it.

        Args:
            photo: Its file.
            layer: Name of a lambda layer.
            head: Number of a head, from 0, or `MEAN`.
            x: Column of the position, in pixels of the network's image.
            y: Row of the position, likewise.

        Returns:
            Picture of the image, title of the maps, picture of the maps.

        Raises:
            gr.Error: If the file is unreadable, or there is no such position.
        """
        if photo is None:
            return NOTHING
        with _telling_what_is_wrong(photo):
            view = self.classifier.view(Path(photo))
            grid = lambda_layers(self.classifier.model)[layer]
            row, column = y * grid[0] // len(view), x * grid[1] // len(view)
            found = lambda_maps(self.classifier.model, layer, preprocess_input(view), row, column)
        maps = {
            "Content map: weight of a place by what is there": found.content,
            "Position map: weight of a place by where it lies": found.position,
        }
        shown = {
            title: weights.mean(0) if head == MEAN else weights[head]
            for title, weights in maps.items()
            if weights is not None
        }
        who = "mean of all heads" if head == MEAN else f"head {head + 1}"
        where = f"row {row + 1}, column {column + 1} of {grid[0]} x {grid[1]}"
        return (
            draw_position(view, grid, row, column),
            f"**What goes into the output at {where}** ({layer}, {who})",
            draw_maps(view, shown, row, column),
        )

    def build(self) -> gr.Blocks:
        """Lays the page out."""
        name, layers = self.classifier.name, lambda_layers(self.classifier.model)
        with _Page(
            title=f"What {name} sees",
            analytics_enabled=False,
            fill_width=True,
            delete_cache=(KEPT, KEPT),
        ) as page:
            gr.Markdown(f"# What {name} sees\n{HELP}")
            with gr.Row():
                photo = gr.Image(
                    label="Image",
                    type="filepath",
                    image_mode=None,
                    sources=["upload", "clipboard"],
                    height=320,
                )
                answer = gr.Label(label="Most probable classes", num_top_classes=TOP)
            asked = photo.change(self.ask, photo, answer, api_name="ask", concurrency_id="model")
            if layers:
                self._build_maps(photo, asked, layers)
            else:
                gr.Markdown(NO_MAPS.format(name))
        # Gradio would open the file itself, and say less about one that is broken.
        photo.preprocess = lambda payload: payload and _uploaded(payload.path, photo)
        return page

    def _build_maps(self, photo: Any, asked: Any, layers: dict[str, tuple[int, int]]) -> None:
        model: Any = self.classifier.model
        size = model.input_shape[1]

        def in_pixels(click: gr.SelectData) -> list[int]:  # of the network's image
            return [i * size // VIEW for i in click.index]

        heads = range(model.get_layer(next(iter(layers))).num_heads)
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
                view = _picture("view", "What the network sees")
            with gr.Column(scale=2):
                title = gr.Markdown()
                maps = _picture("maps", "Where it looked")
        place, shown = [photo, layer, head, x, y], [view, title, maps]
        options: dict[str, Any] = {"concurrency_id": "model", "trigger_mode": "always_last"}
        changes = [control.input for control in (layer, head, x, y)]
        gr.on(changes, self.look, place, shown, api_name="look", **options)
        options["api_visibility"] = "private"
        asked.success(self.look, place, shown, **options)
        asked.failure(lambda: NOTHING, None, shown, **options)
        clicked = view.select(in_pixels, None, [x, y], **options)
        clicked.then(self.look, place, shown, **options)


class _Page(gr.Blocks):
    """Refuses files that were not uploaded before Gradio opens, downloads or names them."""

    async def preprocess_data(self, block_fn: Any, inputs: list[Any], *others: Any, **more: Any):
        for block, value in zip(block_fn.inputs, inputs, strict=False):
            if isinstance(block, gr.Image) and value is not None:
                _uploaded(value.get("path") if isinstance(value, dict) else None, block)
        return await super().preprocess_data(block_fn, inputs, *others, **more)


class _NoUrls:
    """Answers nothing to requests for other addresses, which Gradio would fetch and pass on."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        found = "://" not in scope.get("path", "")
        app = self.app if found else PlainTextResponse("Not Found", status_code=404)
        await app(scope, receive, send)


def _uploaded(path: Any, image: gr.Image) -> str:
    """Returns the path of a file in the folder for uploads; says of no other whether it exists."""
    try:
        real, folder = os.path.realpath(path), os.path.realpath(image.GRADIO_CACHE)
        if os.path.commonpath([real, folder]) == folder and os.path.isfile(real):
            return real
    except (OSError, TypeError, ValueError):
        pass
    raise gr.Error(NOT_UPLOADED, print_exception=False)


def _asks_for(password: str) -> Callable[[str, str], bool]:
    def knows(_: str, tried: str) -> bool:
        return secrets.compare_digest(tried.encode(errors="replace"), password.encode())

    return knows


@contextmanager
def _telling_what_is_wrong(photo: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:  # of an image it names the copy on the server's disk
        message = str(error).replace(photo, Path(photo).name)
        raise gr.Error(message, print_exception=False) from None


def _picture(elem_id: str, label: str) -> gr.Image:
    return gr.Image(
        label=label, elem_id=elem_id, show_label=False, interactive=False, format="png", buttons=[]
    )
