"""TensorFlow's training steps as XLA programs for a TPU, without one: `python -m tools.lowering`.

It needs TensorFlow's wheel for TPUs, which has the kernels that lower operations to XLA. An
operation without a kernel is an error that names it.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from pydantic import TypeAdapter

from lambda_keras.layers.position_lambdas import compiling_for
from zoo.benchmark.backends import TensorFlow
from zoo.benchmark.settings import Dtype
from zoo.benchmark.timing import reason
from zoo.measurements import TRAINING

ASSIGNED = {
    "AssignVariableOp": lambda value, new: new,
    "AssignAddVariableOp": tf.add,
    "AssignSubVariableOp": tf.subtract,
}


def functional(function: Callable, *tensors: Any) -> tuple[Callable, list[Any], list[Any]]:
    """Turns the variables of a function into arguments; TensorFlow cannot export variables.

    Returns:
        A function of values of all variables that `function` uses, and of other tensors, which
        returns the new values and the outputs of `function`; the variables; and the other tensors.
    """
    traced: Any = tf.function(function, jit_compile=True, autograph=False)
    traced = traced.get_concrete_function(*tensors)
    given = list(zip(traced.graph.inputs, [*tensors, *traced.captured_inputs], strict=True))
    handles = [place for place, tensor in given if tensor.dtype == tf.resource]
    others = [place for place, tensor in given if tensor.dtype != tf.resource]
    known = {id(variable.handle): variable for variable in traced.graph.variables}

    def call(state: Sequence[Any], rest: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        places = zip([*handles, *others], [*state, *rest], strict=True)
        values = {place.ref(): value for place, value in places}
        for operation in traced.graph.get_operations():  # in program order
            if operation.type in ("Placeholder", "NoOp"):
                continue
            inputs = [values[tensor.ref()] for tensor in operation.inputs]
            if operation.type == "ReadVariableOp":
                outputs = inputs
            elif operation.type in ASSIGNED:
                values[operation.inputs[0].ref()] = ASSIGNED[operation.type](*inputs)
                continue
            elif any(tensor.dtype == tf.resource for tensor in operation.inputs):
                raise ValueError(
                    "expected variables that are read and assigned. Received: operation "
                    f"{operation.type} of a variable"
                )
            else:
                outputs = _copied(operation, inputs)
            values.update(zip((output.ref() for output in operation.outputs), outputs, strict=True))
        updated = [values[handle.ref()] for handle in handles]
        return updated, [values[output.ref()] for output in traced.graph.outputs]

    variables = [known[id(tensor)] for _, tensor in given if tensor.dtype == tf.resource]
    return call, variables, [tensor for _, tensor in given if tensor.dtype != tf.resource]


def _copied(operation: Any, inputs: Sequence[Any]) -> Sequence[Any]:
    """Copies an operation into the graph that is being traced; returns its outputs."""
    copy = tf.compat.v1.get_default_graph()._create_op_internal(
        operation.type,
        inputs,
        [output.dtype for output in operation.outputs],
        name=operation.name,
        attrs=dict(operation.node_def.attr),
        op_def=operation.op_def,
    )
    return copy.outputs


def lower(function: Callable, *tensors: Any) -> tuple[bytes, int]:
    """Lowers a function of tensors and variables to a serialized HLO module for a TPU.

    Returns:
        The module, and the number of variables, which are its first arguments and first results.
    """
    step, variables, others = functional(function, *tensors)
    program: Any = tf.function(step, jit_compile=True, autograph=False)
    state = [variable.read_value() for variable in variables]
    export = program.experimental_get_compiler_ir(state, others)
    return export(stage="hlo_serialized", platform_name="TPU"), len(variables)


class Lowering(TensorFlow):
    """Lowers training steps in place of compiling them."""

    def train(self, model, images, labels):
        return lower(lambda x, y: model.train_step((x, y)), images, labels)


def main(arguments: Sequence[str]) -> None:
    """Writes the program of a network of `tools.compiled`; prints the number of its variables.

    The arguments are the network, its batch, the Keras dtype policy and the file.
    """
    from tools.compiled import parse_trained

    name, batch, dtype, path = arguments
    network: Any = parse_trained(name, int(batch), TypeAdapter(Dtype).validate_python(dtype))
    with compiling_for("tpu"):
        module, variables = network.step(TRAINING, Lowering())
    Path(path).write_bytes(module)
    print(variables)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Exception as error:  # libraries raise many kinds; tools.compiled prints one line
        raise SystemExit(reason(error)) from None
