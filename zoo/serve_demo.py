"""A page that shows what a model sees: `python -m zoo.serve_demo --run runs/FOLDER`."""

import os
import socket
from collections.abc import Sequence

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from zoo import cli
from zoo.errors import needs_extra
from zoo.model_source import ClassifierSource


class DemoConfig(ClassifierSource):
    """Serves a page where one drops a photograph, and sees what the network makes of it.

    It names the most probable classes, and draws where the lambda layers looked: the content map
    and the position map of a layer at the point that one clicks. Give --model and --weights, or
    --run for the model of a finished run. Examples:

      python -m zoo.serve_demo --run runs/digits
      python -m zoo.serve_demo --model lambda_resnet26t --weights imagenet --port 8080
    """

    model_config = SettingsConfigDict(cli_prog_name="python -m zoo.serve_demo")

    host: str = Field(
        default="127.0.0.1",
        description="Address to listen on. The default is for this computer alone; 0.0.0.0 lets "
        "everyone in who can reach it.",
    )
    port: int = Field(default=7860, ge=1, le=65535, description="Port to listen on.")


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, loads the model, then serves until it is interrupted.

    Args:
        arguments: Command line arguments without the program's name.
    """
    config = DemoConfig.from_command_line(arguments)
    _check_address(config.host, config.port)
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read by Gradio's import
    with needs_extra("demo"):
        import gradio  # noqa: F401  # a missing one shows before the work
    from zoo.demo_page import serve
    from zoo.inference import Classifier

    classifier = Classifier.from_source(config)
    serve(classifier, config.host, config.port)


def _check_address(host: str, port: int) -> None:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise ValueError(
            f"expected --host and --port of a free address here ({error.strerror}). "
            f"Received: {host}:{port}"
        ) from None


if __name__ == "__main__":
    cli.run(main)
