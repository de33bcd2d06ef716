"""Serves an export over HTTP: `python -m zoo.serve exports/NAME`."""

import ipaddress
import os
import signal
import socket
import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from pydantic import Field
from pydantic_settings import CliPositionalArg

from zoo.backend import cores_if_fewer
from zoo.cli.settings import Settings
from zoo.errors import no_address, printable
from zoo.export.base import FILES
from zoo.fields import BatchSize, LocalPath
from zoo.serve.exports import find

if TYPE_CHECKING:
    from zoo.serve.app import Model


class ServeConfig(Settings):
    """Serves an export of python -m zoo.export over HTTP, by TensorFlow Serving's REST interface.

    EXPORT is the folder of one version, or of several, whose newest is served. Requests of several
    clients run in one batch. Examples:

      python -m zoo.serve exports/lambda_resnet14
      python -m zoo.serve exports/lambda_resnet14/onnx/2 --port 8080 --threads 4
    """

    export: CliPositionalArg[LocalPath]
    """Folder of the export, of any network and format."""
    name: str = Field(default="", pattern=r"^[^/\s]*$")
    """Name of the model in requests; default: the export's."""
    host: str = Field(default="127.0.0.1", min_length=1)
    """Address to listen on. The default is for this computer alone; 0.0.0.0 lets in everyone who
    can reach it."""
    port: int = Field(default=8501, ge=0, le=65535)
    """Port to listen on; 0: a free one."""
    batch_size: BatchSize = 32
    """Largest number of images in a batch, of one request or several."""
    workers: int = Field(default=1, ge=1, le=64)
    """Batches that run at once."""
    threads: int = Field(default=0, ge=0, le=1024)
    """CPU threads of a batch; 0: one per core."""
    max_mb: float = Field(default=32, gt=0, le=1024)
    """Largest request in MiB."""
    max_waiting: int = Field(default=1024, ge=1, le=2**20)
    """Largest number of waiting images; further requests are refused with status 503."""
    timeout: float = Field(default=60, gt=0, le=3600)
    """Seconds for the head of a request, then its body, then the reading of the response."""


def run(config: ServeConfig) -> None:
    """Loads the export, then serves it until it is interrupted."""
    from zoo.serve.app import Model
    from zoo.serve.connections import server

    export = find(config.export)
    # SIGTERM, which ends services, acts like Ctrl+C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with bound(config.host, config.port) as listener, suppress(KeyboardInterrupt):
        if threads := config.threads or cores_if_fewer():
            os.environ["TF_NUM_INTRAOP_THREADS"] = str(threads)  # TensorFlow reads it once
        model = Model(
            config.name or export.name,
            export.version,
            export.load(config.workers, threads),
            config.batch_size,
            int(config.max_mb * 2**20),
            config.max_waiting,
            config.timeout,
        )
        listener.listen(128)
        host, port = listener.getsockname()[:2]
        if not ipaddress.ip_address(host).is_loopback:
            print(f"warning: all who can reach {host}:{port} can send requests", file=sys.stderr)
        print(ready(model, host, port), flush=True)
        with closing(model):  # also after a second Ctrl+C, which skips the app's shutdown
            server(model).run(sockets=[listener])
    print("stopped", flush=True)


def ready(model: "Model", host: str, port: int) -> str:
    """Describes where a model is served, and an example of a request."""
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}/v1/models/{model.name}"
    served = f"serving {model.name}, version {model.version}, at {url}; Ctrl+C ends"
    if FILES not in model.signatures:
        return f"{printable(served)}\ncurl {url}/metadata"
    photo = "'$(base64 photo.jpg | tr -d '\\n')'"
    body = f"""'{{"signature_name": "{FILES}", "instances": [{{"b64": "{photo}"}}]}}'"""
    return f"{printable(served)}\necho {body} | curl -d @- {url}:predict"


def bound(host: str, port: int) -> socket.socket:
    """Binds a socket to a free address of this machine."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except (OSError, UnicodeError, TypeError) as error:  # TypeError: of names with a null
        listener.close()
        raise no_address(host, port, error) from None
    return listener
