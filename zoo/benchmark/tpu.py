"""JAX compiling for a TPU that is not there. Importing this imports Keras."""

import time
from typing import Any

from zoo.benchmark.backends import Jax

TOPOLOGY = "v5e:2x2"  # the smallest that libtpu describes; one chip of it is compiled for
# Parts of a program in HBM.
PARTS = ("argument_bytes", "temporary_bytes", "code_bytes")


class DescribedTpu(Jax):
    """Compiles for one chip of `TOPOLOGY` and returns XLA's analysis in place of a step."""

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
        figures: dict[str, Any] = {
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
