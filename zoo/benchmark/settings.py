"""Settings that commands share."""

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from zoo.cli.run import use_backend
from zoo.cli.settings import OutputFile, Settings
from zoo.errors import needs_extra

if TYPE_CHECKING:
    from zoo.benchmark.backends import Backend


def _json(path: Path) -> Path:
    if path.suffix != ".json":
        raise ValueError(f"expected a file name that ends in .json. Received: {str(path)!r}")
    return path


JsonFile = Annotated[OutputFile, AfterValidator(_json)]


class TimedSettings(Settings):
    """Settings of every command that times something."""

    backend: Literal["tensorflow", "jax", "torch"] | None = Field(
        default=None, description="Keras backend; None: KERAS_BACKEND, or else tensorflow."
    )
    xla: bool = Field(default=False, description="Compile with XLA (TensorFlow; JAX always does).")
    repeats: int = Field(default=7, ge=1, description="Rounds, of which the median counts.")
    min_ms: float = Field(
        default=50,
        gt=0,
        allow_inf_nan=False,
        description="Faster computations are called several times per round.",
    )
    memory: bool = Field(
        default=False,
        description="Measure temporary memory too; with PyTorch on CPU in fresh processes.",
    )

    @model_validator(mode="after")
    def _xla_of_tensorflow(self) -> Self:
        if self.xla and self.keras_backend != "tensorflow":
            raise ValueError(
                "expected --xla with the tensorflow backend only: JAX always compiles with XLA, "
                f"PyTorch runs eagerly. Received: {self.keras_backend}"
            )
        return self

    @property
    def keras_backend(self) -> str:
        """Name of the backend to use."""
        return self.backend or os.environ.get("KERAS_BACKEND", "tensorflow")

    def start_backend(self) -> "Backend":
        """Imports the backend, and Keras on it.

        Raises:
            ImportError: If the backend is not installed.
        """
        use_backend(self.keras_backend)
        with needs_extra(self.keras_backend):
            import_module(self.keras_backend)
        from zoo.benchmark.backends import current_backend

        return current_backend(self.xla)
