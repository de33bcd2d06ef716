"""Programs of JAX, compiled for a device that is not there."""

import time
from dataclasses import asdict

from tools.kernels import Device, kernels_of
from zoo.benchmark.backends import Jax


class Compiler(Jax):
    """Compiles for a device that is not there; returns analyses in place of steps."""

    def __init__(self, device: Device, shown: int):
        super().__init__()
        self.device, self.shown = device, shown  # number of kernels to name

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
        temporary = memory.temp_size_in_bytes
        arguments = memory.argument_size_in_bytes + memory.output_size_in_bytes
        arguments -= memory.alias_size_in_bytes  # what is updated in place counts once
        kernels = [
            {"ideal_us": 1e6 * self.device.seconds(kernel), **asdict(kernel)}
            for kernel in kernels_of(compiled.as_text())
        ]
        kernels.sort(key=lambda kernel: -kernel["ideal_us"])
        return {
            "ideal_ms": sum(kernel["ideal_us"] for kernel in kernels) / 1e3,
            "kernels": sum(kernel["calls"] for kernel in kernels if kernel["ideal_us"]),
            **{k: sum(one[k] for one in kernels) for k in ("bytes_accessed", "operations")},
            "argument_bytes": arguments,
            "temporary_bytes": temporary,
            "hbm_bytes": arguments + temporary + memory.generated_code_size_in_bytes,
            "seconds": seconds,
            "most_expensive": kernels[: self.shown],
        }

    def train(self, model, images, labels):
        return self.compile(*self.training(model, images, labels), donated=0)
