"""JAX compilation for a TPU on machines without one. Importing this imports Keras."""

import time

from zoo.benchmark.backends import Jax

TOPOLOGY = "v5e:2x2"  # the smallest topology of libtpu; programs are compiled for one of its chips


class DescribedTpu(Jax):
    """Compiles for one chip of `TOPOLOGY`, and returns XLA's analysis instead of a step."""

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
        # Buffers that are updated in place count once.
        arguments = memory.argument_size_in_bytes + memory.output_size_in_bytes
        arguments -= memory.alias_size_in_bytes
        temporary, code = memory.temp_size_in_bytes, memory.generated_code_size_in_bytes
        return {
            "operations": cost["flops"],
            "bytes_accessed": cost["bytes accessed"],
            "argument_bytes": arguments,
            "temporary_bytes": temporary,
            "code_bytes": code,
            "hbm_bytes": arguments + temporary + code,
            "lowering_seconds": begin - start,
            "seconds": end - begin,
        }

    def train(self, model, images, labels):
        return self.compile(*self.training(model, images, labels), donated=0)
