"""Whether the code that runs now is being compiled by XLA."""

import sys

import keras


def inside_xla() -> bool:
    """Whether XLA compiles the operations that are called now.

    JAX always compiles with XLA and PyTorch never does. On TensorFlow it depends on the
    `jit_compile` of the function that is being traced, for which there is no public function; this
    module answers it for TensorFlow's own control flow.
    """
    if keras.backend.backend() != "tensorflow":
        return keras.backend.backend() == "jax"
    control_flow = sys.modules["tensorflow.python.ops.control_flow_util"]
    tensorflow = sys.modules["tensorflow"]
    return control_flow.GraphOrParentsInXlaContext(tensorflow.compat.v1.get_default_graph())
