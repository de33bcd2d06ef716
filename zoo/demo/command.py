"""Demo page for predictions and lambda maps: `python -m zoo.demo --run runs/FOLDER`."""

import ipaddress
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field

from zoo.cli.tasks import task_part
from zoo.config.model_options import ClassifierOptions
from zoo.errors import no_address, require
from zoo.fields import LocalPath, checked_by

MIN_PASSWORD = 8  # characters; the page does not limit wrong guesses


def read_password(path: Path) -> str:
    """Returns the password in a text file; refuses files without one line that is long enough."""
    try:
        text = path.read_text(encoding="utf-8").strip() if os.path.isfile(path) else ""
    except (OSError, UnicodeDecodeError):
        text = ""
    expected = f"expected a text file with one line of {MIN_PASSWORD} or more characters"
    require(len(text) >= MIN_PASSWORD and text.isprintable(), expected, repr(str(path)))
    return text


def check_url(url: str) -> None:
    """Checks the address of a proxy."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and parts.hostname and "*" not in parts.hostname
    except ValueError:
        fits = False
    if not fits or set(url) & set("?#@ "):
        raise ValueError(f"expected http(s)://HOST/PATH of a proxy. Received: {url!r}")


class DemoConfig(ClassifierOptions):
    """Serves a page with predictions and lambda maps for uploaded images.

    For a classifier it shows the most probable classes, and the content map and position map of a
    lambda layer at the clicked point; for other networks, their outputs. Pass --run for the model
    of a finished run, --model for a published one, or --model and --weights. Examples:

      python -m zoo.demo --run runs/digits
      python -m zoo.demo --model lambda_resnet26t --weights imagenet --port 8080
    """

    host: str = Field(default="127.0.0.1", min_length=1)
    """Address to listen on. The default is for this computer alone; 0.0.0.0 lets in everyone who
    can reach it and knows the password."""
    port: int = Field(default=7860, ge=1, le=65535)
    """Port to listen on."""
    password_file: Annotated[LocalPath, checked_by(read_password)] | None = Field(
        default=None,
        description=f"Text file with the password of the page, {MIN_PASSWORD} characters or more. "
        "Required if others can reach the address.",
    )
    url: Annotated[str, checked_by(check_url)] | None = None
    """Address of a proxy that forwards to this page, in place of --host and a password: with
    JupyterHub, https://hub.example.org/user/me/proxy/7860/."""


def run(config: DemoConfig) -> None:
    """Loads the model, then serves the page until it is interrupted."""
    password = None if config.password_file is None else read_password(config.password_file)
    is_private = check_address(config.host, config.port)
    expected = "expected --password_file with a --host that others can reach"
    received = f"host={config.host!r}, password_file=None"
    require(password is not None or is_private, expected, received)
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # Gradio reads it on import
    from zoo.demo.page import serve  # fails before the model is loaded, without Gradio

    show(config, task_part("demo", config)(config), serve, password, is_private)


def show(
    config: DemoConfig,
    demo: Any,
    serve: Callable[..., None],
    password: str | None,
    is_private: bool,
) -> None:
    """Serves a page, with a temporary folder for uploads."""
    # Gradio's default folder for uploads is shared by all pages on this machine.
    with tempfile.TemporaryDirectory(prefix="lambda_keras-") as folder:
        os.environ.setdefault("GRADIO_TEMP_DIR", folder)
        serve(demo, config.host, config.port, password, is_private, config.url)


def check_address(host: str, port: int, resolve: Callable[..., list] = socket.getaddrinfo) -> bool:
    """Returns whether only this computer can reach the address."""
    try:
        addresses = resolve(host, port, type=socket.SOCK_STREAM)
        family, *_, address = addresses[0]
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except (OSError, UnicodeError) as error:
        raise no_address(host, port, error) from None
    return all(ipaddress.ip_address(address[0]).is_loopback for *_, address in addresses)
