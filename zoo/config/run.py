"""Settings of every task: the run folder and the devices."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from zoo.cli.settings import AnyPath, Settings


class RunConfig(Settings):
    """The run folder and the devices."""

    config: AnyPath | None = Field(default=None, exclude=True)
    """YAML file with these settings, or the name of a configuration of the zoo, such as
    lambda_resnet50_image_folder."""
    output_dir: AnyPath = Path("runs/latest")
    """Run folder, local or gs://; several hosts must share it. An unfinished run in it is resumed;
    a finished one is refused."""
    overwrite: bool = Field(default=False, exclude=True)
    """Remove the run in output_dir and start from the beginning."""
    strategy: Literal["auto", "tpu", "mirrored", "multi_worker", "one_device"] = "auto"
    """Devices; auto: a TPU, else all GPUs (mirrored), else one device. multi_worker: those of all
    machines in TF_CONFIG, or on JAX in KERAS_DISTRIBUTION_*."""
    tpu: str | None = Field(default=None, min_length=1)
    """TPU name or address, 'local' on a TPU VM; None: the environment variable TPU_NAME."""

    @model_validator(mode="after")
    def _tpu_is_used(self) -> Self:
        if self.tpu is not None and self.strategy not in ("auto", "tpu"):
            raise ValueError(f"tpu: not used by strategy={self.strategy}. Received: {self.tpu!r}")
        return self
