"""Programs of JAX, or of TensorFlow as HLO, compiled for a device that is not there."""

import time
from dataclasses import asdict
from typing import Any

import numpy as np

from tools.kernels import Device, kernels_of
from zoo.benchmark.backends import Jax


class Compiler(Jax):
    """Compiles for a device that is not there; returns analyses in place of steps."""

    def __init__(self, device: Device, shown: int):
        super().__init__()
        self.device, self.shown = device, shown  # number of kernels to name

    def target(self) -> Any:
        """Returns JAX's description of the device."""
        from jax.experimental import topologies  # pyright: ignore[reportMissingImports]

        platform = self.device.platform
        return topologies.get_topology_desc(platform=platform, **self.device.topology).devices[0]

    def compile(self, function, *tensors, donated=()):
        jax, platform = self.module, self.device.platform
        placed = jax.sharding.SingleDeviceSharding(self.target())
        described = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=placed), tensors
        )
        traced = jax.jit(function, donate_argnums=donated).trace(*described)
        lowered = traced.lower(lowering_platforms=(platform,))
        start = time.perf_counter()
        compiled = lowered.compile()
        seconds = time.perf_counter() - start
        return self.analyze(compiled.as_text(), compiled.memory_analysis(), seconds)

    def compile_program(self, program: bytes, variables: int) -> dict[str, Any]:
        """Compiles a serialized HLO module whose first arguments and results are variables."""
        from jax._src.interpreters import mlir  # pyright: ignore[reportMissingImports]
        from jax._src.lib import xla_client  # pyright: ignore[reportMissingImports]
        from jax._src.lib.mlir import ir  # pyright: ignore[reportMissingImports]

        computation = xla_client.XlaComputation(program)
        text = xla_client._xla.mlir.xla_computation_to_mlir_module(computation)
        target = self.target()
        options = xla_client.CompileOptions()
        assigned = np.array([[target.id]], "int32")
        options.device_assignment = xla_client.DeviceAssignment.create(assigned)
        with mlir.make_ir_context():
            module = ir.Module.parse(text)
            (function,) = (one for one in module.body if one.name.value == "main")
            integer = ir.IntegerType.get_signless(32)
            updated = [
                {"tf.aliasing_output": ir.IntegerAttr.get(integer, i)} for i in range(variables)
            ]
            kept = [{}] * (len(function.arguments) - variables)
            attributes = [ir.DictAttr.get(one) for one in (*updated, *kept)]
            function.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
            start = time.perf_counter()
            devices = xla_client.DeviceList((target,))
            compiled = target.client.compile(module, devices, options)
            seconds = time.perf_counter() - start
        text = "\n\n".join(module.to_string() for module in compiled.hlo_modules())
        return self.analyze(text, compiled.get_compiled_memory_stats(), seconds)

    def analyze(self, text: str, memory: Any, seconds: float) -> dict[str, Any]:
        """Returns the costs of a compiled program by its text, and by XLA's own analysis."""
        temporary = memory.temp_size_in_bytes
        arguments = memory.argument_size_in_bytes + memory.output_size_in_bytes
        arguments -= memory.alias_size_in_bytes  # what is updated in place counts once
        kernels = [
            {"ideal_us": 1e6 * self.device.seconds(kernel), **asdict(kernel)}
            for kernel in kernels_of(text)
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
