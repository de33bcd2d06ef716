"""Generates handwritten digits: `python -m zoo.generate --output digits.png`."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from zoo.cli.run import run_command
from zoo.cli.settings import Count, OutputFile, Settings, checked_by, named


def _check_depth(depth: int) -> None:
    if depth % 4:
        raise ValueError(f"expected a multiple of 4, the heads. Received: {depth}")


class GenerateConfig(Settings, cli_prog_name="python -m zoo.generate"):
    """Trains a causal lambda network on scikit-learn's handwritten digits, and generates digits.

    The network predicts each of the 8x8 pixels, of 17 gray levels, from those before it in raster
    order. Trained on all of them at once, it generates them one by one, with LambdaCell. Prints
    bits per pixel on 360 held-out digits, and writes a figure. Takes some minutes on a CPU.
    """

    output: Annotated[OutputFile, named(".png")]
    """Figure to write: generated digits beside real ones."""
    steps: Count = 1500
    """Training steps."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Seed of weights, the order of the digits, and the draws of pixels."""
    count: int = Field(default=64, ge=1, le=10_000)
    """Digits to generate."""
    depth: Annotated[int, checked_by(_check_depth)] = Field(default=64, ge=4, le=4096)
    """Channels of the network."""
    blocks: int = Field(default=2, ge=1, le=100)
    """Lambda layers of the network."""
    batch_size: int = Field(default=32, ge=1, le=1437)
    """Digits per training step."""
    learning_rate: float = Field(default=0.003, gt=0)
    """Highest learning rate, of AdamW."""


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, trains, measures, generates, and draws."""
    config = GenerateConfig.from_command_line(arguments)
    from zoo.generate.digits import generate

    generate(config.output, **config.model_dump(exclude={"output"}))


if __name__ == "__main__":
    run_command(main)
