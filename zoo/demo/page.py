"""Server of `zoo.demo`, and the parts that the pages of all tasks share."""

import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from zoo.errors import needs_extra

with needs_extra("demo"):
    import gradio as gr
    from gradio.themes import Default
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import PlainTextResponse

KEPT = 3600  # seconds that images and figures stay on the server's disk
HELP = (
    "Drop an image (JPEG, PNG, WebP, ...). It is {resized} as when the {result} of the network was "
    "measured, and the server deletes it within two hours."
)
# Gradio lays the arrow of a dropdown over the end of its text.
CSS = "input[role=combobox] { padding-right: 28px !important; text-overflow: ellipsis; }"
NOT_UPLOADED = "expected an image that was uploaded to this page"


def serve(
    demo: Any, host: str, port: int, password: str | None, is_private: bool, url: str | None = None
) -> None:
    """Serves the page of `demo.build()` until it is interrupted, behind a password if there is one.

    A private address is reachable from this computer only; requests for other host names are then
    refused, against DNS rebinding. The host name of `url`, a proxy, is allowed.
    """
    names = (host, f"[{host}]", "127.0.0.1", "[::1]", "localhost")
    names += () if url is None else (urlsplit(url).hostname or "",)

    def is_known(_: str, tried: str) -> bool:
        return secrets.compare_digest(tried.encode(errors="replace"), (password or "").encode())

    # SIGTERM, which ends services, acts like Ctrl+C, so that images are deleted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    page = demo.build()
    page.launch(
        server_name=host,
        server_port=port,
        root_path=url,
        share=False,
        quiet=True,
        prevent_thread_lock=True,
        max_file_size="50mb",
        footer_links=[],
        theme=Default(primary_hue="blue"),
        css=CSS,
        run_history=False,
        auth=None if password is None else is_known,
        auth_message="Any name, and the password of this page.",
        app_kwargs={
            "middleware": [
                Middleware(TrustedHostMiddleware, names if is_private else ["*"], False),
                Middleware(_NoUrls),
            ]
        },
    )
    print(
        f"Open {url.rstrip('/') + '/' if url else page.local_url} in a browser; Ctrl+C ends.",
        flush=True,
    )
    page.block_thread()


@contextmanager
def page_of(name: str, text: str) -> Iterator["Page"]:
    """Opens a page with a heading and a text; the `with` block lays out the rest."""
    title = f"What {name} sees"
    with Page(
        title=title, analytics_enabled=False, fill_width=True, delete_cache=(KEPT, KEPT)
    ) as page:
        gr.Markdown(f"# {title}\n{text}")
        yield page


def upload() -> gr.Image:
    """Creates the upload field for an image; its value is the path of the file."""
    sources: Any = ["upload", "clipboard"]
    photo = gr.Image(label="Image", type="filepath", image_mode=None, sources=sources, height=320)
    # Gradio would open the file itself, with poorer messages for damaged files.
    photo.preprocess = lambda payload: payload and uploaded(payload.path, photo)
    return photo


class Page(gr.Blocks):
    """Page that refuses files that were not uploaded, before Gradio opens or downloads them."""

    async def preprocess_data(self, block_fn: Any, inputs: list[Any], *others: Any, **more: Any):
        for block, value in zip(block_fn.inputs, inputs, strict=False):
            if isinstance(block, gr.Image) and value is not None:
                uploaded(value.get("path") if isinstance(value, dict) else None, block)
        return await super().preprocess_data(block_fn, inputs, *others, **more)


class _NoUrls:
    """Middleware against requests for other URLs, which Gradio would fetch and pass on."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        is_path = "://" not in scope.get("path", "")
        app = self.app if is_path else PlainTextResponse("Not Found", status_code=404)
        await app(scope, receive, send)


def uploaded(path: Any, image: gr.Image) -> str:
    """Returns the path of an uploaded file; does not reveal whether other files exist."""
    try:
        real, folder = os.path.realpath(path), os.path.realpath(image.GRADIO_CACHE)
        if os.path.commonpath([real, folder]) == folder and os.path.isfile(real):
            return real
    except (OSError, TypeError, ValueError):
        pass
    raise gr.Error(NOT_UPLOADED, print_exception=False)


@contextmanager
def telling_what_is_wrong(photo: str) -> Iterator[None]:
    """Shows errors about an image on the page, without the path of the upload."""
    try:
        yield
    except ValueError as error:  # the message names the copy on the server's disk
        message = str(error).replace(photo, Path(photo).name)
        raise gr.Error(message, print_exception=False) from None


def picture(elem_id: str, label: str) -> gr.Image:
    """Creates a read-only image on the page."""
    return gr.Image(
        label=label, elem_id=elem_id, show_label=False, interactive=False, format="png", buttons=[]
    )
