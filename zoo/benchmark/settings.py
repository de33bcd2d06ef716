"""Settings that benchmark commands share."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from zoo.backend import use_backend
from zoo.cli.settings import Settings
from zoo.errors import needs_extra
from zoo.fields import Count, OutputFile, checked_by, named

if TYPE_CHECKING:
    from zoo.benchmark.backends import Backend


def _each_once(values: tuple) -> None:
    if not values or len(set(values)) < len(values):
        raise ValueError(f"expected one or more, each once. Received: {values}")


BASELINE = "einsum"  # the paper's own order of computation (Figure 3)
MixedDtype = Literal["float32", "mixed_bfloat16", "mixed_float16"]
Dtype = Literal[MixedDtype, "bfloat16", "float16"]
EachOnce = checked_by(_each_once)
Rounds = Annotated[Count, Field(description="Rounds, of which the median counts.")]
MinMs = Annotated[float, Field(gt=0, description="Faster ones are called repeatedly in a round.")]


class BenchmarkSettings(Settings):
    """Settings of every benchmark."""

    extra: ClassVar[str] = "train"  # required dependency group of lambda_keras

    output: Annotated[OutputFile, named(".json")] | None = None
    """JSON file to write."""


class BackendSettings(BenchmarkSettings):
    """Settings of every command that times cases on a Keras backend."""

    looping: ClassVar[bool] = False  # whether programs repeat computations themselves

    backend: Literal["tensorflow", "jax", "torch"] | None = None
    """Keras backend; None: KERAS_BACKEND, or else tensorflow."""
    xla: bool = False
    """Compile with XLA (TensorFlow; JAX always does)."""
    repeats: Rounds = 7
    min_ms: MinMs = 50
    memory: bool = False
    """Measure temporary memory, too."""

    @property
    def keras_backend(self) -> str:
        """Name of the backend to use."""
        return self.backend or os.environ.get("KERAS_BACKEND", "tensorflow")

    @model_validator(mode="after")
    def _xla_of_tensorflow(self) -> Self:
        if self.xla and self.keras_backend != "tensorflow":
            raise ValueError(
                "expected --xla with the tensorflow backend only: JAX always compiles with XLA, "
                f"PyTorch runs eagerly. Received: {self.keras_backend}"
            )
        return self

    def start_backend(self) -> "Backend":
        """Imports the backend, and Keras on it."""
        use_backend(self.keras_backend)
        with needs_extra(self.keras_backend):
            import_module(self.keras_backend)
        from zoo.benchmark.backends import current_backend

        backend = current_backend(self.xla, self.looping)
        if self.memory and not backend.memory_method:
            uncounted = f"on this hardware {backend.package} does not count its memory"
            raise ValueError(f"expected --memory false: {uncounted}. Received: true")
        return backend
