"""The device that operations run on, and whether XLA compiles them."""

import sys
from contextlib import contextmanager
from contextvars import ContextVar

import keras
from keras import ops

# "runtime": OpenVINO or ONNX Runtime on a CPU, for graphs that are exported to them.
KINDS = ("cpu", "gpu", "tpu", "runtime")

# A kind of device, and whether XLA compiles for it.
_compiled_for: ContextVar[tuple[str | None, bool | None]] = ContextVar(
    "compiled_for", default=(None, None)
)


@contextmanager
def compiling_for(kind: str, xla: bool | None = None):
    """Makes `device_kind` return one of `KINDS`, for code that is compiled for another device.

    `inside_xla` returns `xla`, unless it is `None`.

    >>> from lambda_keras.layers.position_lambdas import compiling_for, device_kind
    >>> with compiling_for("tpu"):
    ...     device_kind()
    'tpu'
    """
    if kind not in KINDS:
        raise ValueError(f"expected kind to be one of {KINDS}. Received: kind={kind!r}")
    token = _compiled_for.set((kind, xla))
    try:
        yield
    finally:
        _compiled_for.reset(token)


def device_kind() -> str:
    """Kind of the backend's default device, one of `KINDS`."""
    compiled_for, _ = _compiled_for.get()
    if compiled_for:
        return compiled_for
    backend = keras.backend.backend()
    if backend == "tensorflow":
        devices = sys.modules["tensorflow"].config.list_logical_devices()
        types = {device.device_type for device in devices}
        return next((kind for kind in ("tpu", "gpu") if kind.upper() in types), "cpu")
    # PyTorch's device is "meta" where it computes shapes only.
    kind = sys.modules["jax"].default_backend() if backend == "jax" else ops.zeros(()).device.type
    return {"meta": "cpu"}.get(kind, kind if kind in KINDS else "gpu")


def inside_xla() -> bool:
    """Whether XLA compiles the operations that are called now.

    JAX always compiles with XLA and PyTorch never does. On TensorFlow it depends on the
    `jit_compile` of the function that is being traced. No public function tells; the private module
    `control_flow_util` does, for TensorFlow's own control flow.
    """
    _, xla = _compiled_for.get()
    if xla is not None:
        return xla
    if keras.backend.backend() != "tensorflow":
        return keras.backend.backend() == "jax"
    control_flow = sys.modules["tensorflow.python.ops.control_flow_util"]
    tensorflow = sys.modules["tensorflow"]
    return control_flow.GraphOrParentsInXlaContext(tensorflow.compat.v1.get_default_graph())
