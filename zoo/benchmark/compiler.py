"""JAX compilation for devices that are not there. Importing this imports Keras."""

import time

from zoo.benchmark.backends import Jax
from zoo.benchmark.devices import Device
from zoo.benchmark.hlo import Program


class Compiler(Jax):
    """Compiles for one device of a described topology, and analyzes programs in place of steps.

    Args:
        device: The device.
        shown: Number of kernels to name, the most expensive ones.
    """

    def __init__(self, device: Device, shown: int):
        super().__init__()
        self.device, self.shown = device, shown

    def compile(self, function, *tensors, donated=()):
        from jax.experimental import topologies  # pyright: ignore[reportMissingImports]

        jax, platform = self.module, self.device.platform
        target = topologies.get_topology_desc(platform=platform, **self.device.topology).devices[0]
        placed = jax.sharding.SingleDeviceSharding(target)
        described = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=placed), tensors
        )
        traced = jax.jit(function, donate_argnums=donated).trace(*described)
        lowered = traced.lower(lowering_platforms=(platform,))
        start = time.perf_counter()
        compiled = lowered.compile()
        seconds = time.perf_counter() - start
        memory = compiled.memory_analysis()
        # Buffers that are updated in place count once.
        arguments = memory.argument_size_in_bytes + memory.output_size_in_bytes
        arguments -= memory.alias_size_in_bytes
        temporary, code = memory.temp_size_in_bytes, memory.generated_code_size_in_bytes
        kernels = Program(compiled.as_text()).kernels
        rows = [
            {
                "kernel": kernel.name,
                "source": kernel.source,
                "calls": kernel.calls,
                "ideal_us": 1e6 * kernel.calls * self.device.seconds(kernel),
                "bytes_accessed": kernel.calls * kernel.bytes_accessed,
                "operations": kernel.calls * kernel.operations,
            }
            for kernel in kernels
        ]
        rows.sort(key=lambda row: -row["ideal_us"])
        return {
            "ideal_ms": sum(row["ideal_us"] for row in rows) / 1e3,
            "kernels": sum(row["calls"] for row in rows if row["ideal_us"]),
            "bytes_accessed": sum(row["bytes_accessed"] for row in rows),
            "operations": sum(row["operations"] for row in rows),
            "argument_bytes": arguments,
            "temporary_bytes": temporary,
            "hbm_bytes": arguments + temporary + code,
            "seconds": seconds,
            "most_expensive": rows[: self.shown],
        }

    def train(self, model, images, labels):
        return self.compile(*self.training(model, images, labels), donated=0)
