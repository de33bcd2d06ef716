"""Backends that compile for a TPU that is not there. Importing this imports Keras."""

import re
import time
from itertools import islice
from typing import Any

from zoo.benchmark.backends import Jax, TensorFlow

TOPOLOGY = "v5e:2x2"  # the smallest that libtpu describes; one chip of it is compiled for
# What a program occupies in HBM.
PARTS = ("argument_bytes", "temporary_bytes", "code_bytes")


class DescribedTpu(Jax):
    """Compiles for one chip of `TOPOLOGY`; where others return a step, these are XLA's figures."""

    def compile(self, function, *tensors, donated=()):
        from jax.experimental import topologies  # pyright: ignore[reportMissingImports]

        jax = self.module
        device = topologies.get_topology_desc(platform="tpu", topology_name=TOPOLOGY).devices[0]
        placed = jax.sharding.SingleDeviceSharding(device)
        described = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=placed), tensors
        )
        start = time.perf_counter()
        traced = jax.jit(function, donate_argnums=donated).trace(*described)
        lowered = traced.lower(lowering_platforms=("tpu",))
        begin = time.perf_counter()
        compiled = lowered.compile()
        end = time.perf_counter()
        cost, memory = compiled.cost_analysis(), compiled.memory_analysis()
        figures = {
            "operations": cost["flops"],
            "bytes_accessed": cost["bytes accessed"],
            "argument_bytes": memory.argument_size_in_bytes
            + memory.output_size_in_bytes
            - memory.alias_size_in_bytes,
            "temporary_bytes": memory.temp_size_in_bytes,
            "code_bytes": memory.generated_code_size_in_bytes,
            "lowering_seconds": begin - start,
            "seconds": end - begin,
        }
        return {**figures, "hbm_bytes": sum(figures[name] for name in PARTS)}

    def train(self, model, images, labels):
        return self.compile(*self.training(model, images, labels), donated=0)


class LoweringTensorFlow(TensorFlow):
    """Lowers training steps to what TensorFlow hands to the TPU's compiler, and counts it."""

    def train(self, model: Any, images, labels):
        """TensorFlow lowers functions of tensors alone, so SGD is written out: Keras' assigns."""
        tf, sgd = self.module, model.optimizer
        groups = [model.trainable_variables, model.non_trainable_variables]
        groups += [model.trainable_variables] * 2  # momenta and averages
        sizes = [len(group) for group in groups]
        rate = float(sgd.learning_rate)

        def step(*tensors):
            rest = iter(tensors)
            weights, others, momenta, averages = (list(islice(rest, size)) for size in sizes)
            images, labels = rest
            with tf.GradientTape() as tape:
                tape.watch(weights)
                outputs, others = model.stateless_call(weights, others, images, training=True)
                loss = model.loss(labels, outputs)
            gradients: Any = tape.gradient(loss, weights)
            momenta = [sgd.momentum * m - rate * g for m, g in zip(momenta, gradients, strict=True)]
            weights = [w + m for w, m in zip(weights, momenta, strict=True)]
            averages = [
                sgd.ema_momentum * a + (1 - sgd.ema_momentum) * w
                for a, w in zip(averages, weights, strict=True)
            ]
            return [loss, *weights, *others, *momenta, *averages]

        shapes = [tf.TensorSpec(v.shape, v.dtype) for group in groups for v in group]
        shapes += [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in (images, labels)]
        start = time.perf_counter()
        function = tf.function(step, jit_compile=True, autograph=False)
        lower = function.experimental_get_compiler_ir(*shapes)
        program = lower(stage="hlo", platform_name="TPU")
        return {
            "instructions": len(re.findall(r"^ +(?:ROOT )?%\S+ = ", program, re.MULTILINE)),
            "lowering_seconds": time.perf_counter() - start,
        }


BACKENDS = {"jax": DescribedTpu, "tensorflow": LoweringTensorFlow}
