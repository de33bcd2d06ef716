"""Exports a model to serve: `python -m zoo.export --run runs/FOLDER`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator
from pydantic_settings import SettingsConfigDict

from zoo import cli
from zoo.registry import find_model
from zoo.settings import Settings


class ExportConfig(Settings):
    """Exports a model as a SavedModel for TensorFlow Serving.

    Give --run for the model of a finished run, or --model, --weights and --classes.
    Writes OUTPUT/MODEL/1, the next time OUTPUT/MODEL/2, and so on. The SavedModel takes
    'images' of shape (batch, height, width, 3), float32 in [0, 255], RGB, and returns
    'probabilities' of shape (batch, classes). A new process with only TensorFlow loads it and
    has to give the same answers as Keras, else the export is removed.
    """

    model_config = SettingsConfigDict(cli_prog_name="python -m zoo.export")

    config: Path | None = Field(
        default=None, exclude=True, description="YAML file with these settings."
    )
    run: Path | None = Field(default=None, description="Folder of a finished run.")
    model: str | None = Field(default=None, description="Model, by its name in zoo/registry.py.")
    weights: Path | None = Field(default=None, description="The .weights.h5 file of --model.")
    classes: int = Field(default=1000, ge=1, description="Number of classes of --model.")
    image_size: int | None = Field(
        default=None,
        ge=8,
        le=2048,
        description="Height and width for --model; None: the model's own.",
    )
    output: Path = Field(default=Path("exports"), description="Folder of all exports.")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        of_model = {"model", "weights", "classes", "image_size"} & self.model_fields_set
        if self.run is not None and of_model:
            raise ValueError(f"--run already says which model. Received: {sorted(of_model)}")
        if self.run is None and (self.model is None or self.weights is None):
            raise ValueError("expected --run, or --model and --weights")
        if self.model is not None:
            find_model(self.model)
        return self


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then exports.

    Args:
        arguments: Command line arguments without the program's name.
    """
    config = ExportConfig.from_command_line(arguments)
    from zoo import exporter

    if config.run is not None:
        exporter.export_run(config.run, config.output)
    else:
        exporter.export_weights(
            str(config.model),
            Path(str(config.weights)),
            config.classes,
            config.image_size,
            config.output,
        )


if __name__ == "__main__":
    cli.run(main)
