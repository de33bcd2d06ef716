"""Servers and workers of tests, on this machine alone."""

import json
import os
import random
import socket
from contextlib import suppress

# Below those that Linux gives to outgoing connections (from 32768), which would take it meanwhile.
PORTS = range(20_000, 32_000)


def free_port() -> int:
    while True:
        with suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", random.SystemRandom().choice(PORTS)))
            return listener.getsockname()[1]


def cluster(workers: list[str], index: int) -> dict[str, str]:
    """Returns the environment of one of several processes that train together."""
    task = {"type": "worker", "index": index}
    return {
        "TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": task}),
        # JAX, through Keras.
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": ",".join(workers),
        "KERAS_DISTRIBUTION_NUM_PROCESSES": str(len(workers)),
        "KERAS_DISTRIBUTION_PROCESS_ID": str(index),
    }


def virtual_cpus(count: int) -> None:
    """Divides the CPU of this process into devices of JAX and TensorFlow, before either starts."""
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={count}"
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    logical = [tf.config.LogicalDeviceConfiguration()] * count
    tf.config.set_logical_device_configuration(cpu, logical)
