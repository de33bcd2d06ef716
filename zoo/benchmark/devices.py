"""Devices that programs are compiled for on machines without them, from `devices.yaml`."""

from pathlib import Path

import yaml

from zoo.benchmark.hlo import Kernel
from zoo.cli.settings import Section


class Device(Section):
    """A device, as `devices.yaml` has it: what its compiler needs, its peaks, and their source."""

    title: str
    source: str
    packages: dict[str, str]
    platform: str
    topology: dict[str, str]
    environment: dict[str, str] = {}
    memory_bytes: int
    flops: float
    bandwidth: float
    launch_seconds: float = 0.0
    hertz: float | None = None

    def seconds(self, kernel: Kernel) -> float:
        """Ideal time of one run of a kernel."""
        if self.hertz is not None:
            return kernel.cycles / self.hertz
        slowest = max(kernel.bytes_accessed / self.bandwidth, kernel.operations / self.flops)
        return slowest + self.launch_seconds


_TEXT = Path(__file__).with_name("devices.yaml").read_text(encoding="utf-8")
DEVICES = {name: Device(**fields) for name, fields in yaml.safe_load(_TEXT).items()}
