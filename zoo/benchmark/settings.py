"""Settings that commands share."""

import os
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from zoo.cli.run import use_backend
from zoo.cli.settings import OutputFile, Settings, checked_by, named
from zoo.errors import needs_extra

if TYPE_CHECKING:
    from zoo.benchmark.backends import Backend


def _each_once(values: tuple) -> None:
    if not values or len(set(values)) < len(values):
        raise ValueError(f"expected one or more, each once. Received: {values}")


def each(check: Callable[[Any], object]) -> AfterValidator:
    """Creates a validator of every value of a tuple from a function that raises `ValueError`."""
    return checked_by(lambda values: [check(value) for value in values])


FORWARD, FORWARD_BACKWARD, TRAINING = "forward", "forward_backward", "training"
LAYER, POSITION = "layer", "position"
GROWTH, SEQUENCES = "growth", "sequences"  # parts of the comparison with attention
BASELINE = "einsum"  # the paper's own order of computation (Figure 3)
MixedDtype = Literal["float32", "mixed_bfloat16", "mixed_float16"]
Dtype = Literal[MixedDtype, "bfloat16", "float16"]
EachOnce = checked_by(_each_once)
Rounds = Annotated[int, Field(ge=1, description="Rounds, of which the median counts.")]
MinMs = Annotated[
    float, Field(gt=0, description="Faster computations are called several times per round.")
]
Memory = Annotated[
    bool,
    Field(description="Measure temporary memory too; with PyTorch on CPU in fresh processes."),
]
OUT_OF_MEMORY = "out of memory"  # what reasons begin with


class BenchmarkSettings(Settings):
    """Settings of every benchmark."""

    extra: ClassVar[str] = "train"  # the dependency group of lambda_keras that it needs

    output: Annotated[OutputFile, named(".json")] | None = Field(
        default=None, description="JSON file to write; a picture .png beside it where there is one."
    )


class BackendSettings(BenchmarkSettings):
    """Settings of every command that times subjects on a Keras backend."""

    backend: Literal["tensorflow", "jax", "torch"] | None = Field(
        default=None, description="Keras backend; None: KERAS_BACKEND, or else tensorflow."
    )
    xla: bool = Field(default=False, description="Compile with XLA (TensorFlow; JAX always does).")
    repeats: Rounds = 7
    min_ms: MinMs = 50
    memory: Memory = False

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
        """Imports the backend, and Keras on it.

        Raises:
            ImportError: If the backend is not installed.
            ValueError: If memory is wanted that cannot be measured here.
        """
        use_backend(self.keras_backend)
        with needs_extra(self.keras_backend):
            import_module(self.keras_backend)
        from zoo.benchmark.backends import current_backend
        from zoo.benchmark.memory import check_platform

        backend = current_backend(self.xla)
        if self.memory and not backend.memory_method:
            check_platform("memory")
        return backend
