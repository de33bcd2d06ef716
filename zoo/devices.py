"""Devices of a run: one, all of this machine, a TPU, or all of several hosts.

They are `tf.distribute` strategies on TensorFlow, `keras.distribution.DataParallel` on JAX.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from zoo.errors import install, refusal, require

DEVICE_FILES = {"nvidia[0-9]*": "GPU", "accel[0-9]*": "TPU", "vfio/[0-9]*": "TPU"}  # of Linux
TF_CONFIG = (
    "TF_CONFIG in the environment, with the addresses of all workers and the index of this one, "
    'such as {"cluster": {"worker": ["10.0.0.1:8476", "10.0.0.2:8476"]}, '
    '"task": {"type": "worker", "index": 0}}'
)
DEV = Path("/dev")
Seen = Callable[[str], list]  # devices of a kind, as `tf.config.list_physical_devices`
INSTALL_FOR_TPU = f"pip uninstall tensorflow, then {install('tpu')}"


@dataclass(frozen=True)
class Host:
    """Index of a host and the number of hosts; each host reads its share of every batch."""

    index: int = 0
    count: int = 1

    def size(self, batch_size: int) -> int:
        """Returns the number of images of a batch on this host, if the hosts divide it."""
        expected = f"data.batch_size: expected a multiple of {self.count}, the number of hosts"
        require(batch_size % self.count == 0, expected, batch_size)
        return batch_size // self.count

    def split(self, count: int) -> "list[Host]":
        """Splits this host into its share of `count` smaller hosts, if all hosts divide evenly.

        >>> from zoo.devices import Host
        >>> Host(1, 2).split(4)
        [Host(index=2, count=4), Host(index=3, count=4)]
        """
        if count % self.count:
            return [self]
        each = count // self.count
        return [Host(self.index * each + i, count) for i in range(each)]

    def number(self, position: Any, batch_size: int) -> Any:
        """Converts a position among this host's examples to one among all hosts' examples."""
        size = self.size(batch_size)
        return position // size * batch_size + self.index * size + position % size


ONLY_HOST = Host()


@dataclass(frozen=True)
class Devices:
    """The devices of a run on all its hosts; `host` is this process.

    `kind` is "CPU", "GPU" or "TPU", `strategy` a `tf.distribute.Strategy` or
    `keras.distribution.Distribution`, None for one device.
    """

    replicas: int
    host: Host
    kind: str
    strategy: Any = None

    def __str__(self) -> str:
        hosts = f" on {self.host.count} hosts" if self.host.count > 1 else ""
        return f"{self.kind}, {self.replicas} replica(s){hosts}"

    @property
    def chief(self) -> bool:
        """Whether this process writes the files."""
        return self.host.index == 0

    def scope(self) -> AbstractContextManager:
        """Returns the context manager in which models and optimizers are built and trained."""
        return nullcontext() if self.strategy is None else self.strategy.scope()

    def distribute(self, batches: Callable[[Host], tf.data.Dataset], batch_size: int) -> Any:
        """Creates the distributed dataset for `fit` and `evaluate` from each host's batches."""
        if not isinstance(self.strategy, tf.distribute.Strategy):
            return batches(self.host)

        def rebatch(context: tf.distribute.InputContext) -> tf.data.Dataset:
            host = Host(context.input_pipeline_id, context.num_input_pipelines)
            return batches(host).rebatch(batch_size // self.replicas)

        return self.strategy.distribute_datasets_from_function(rebatch)

    @contextmanager
    def noticing_losses(self) -> Iterator[None]:
        """Ends the process with one line when another host of the run is lost."""
        is_jax = keras.backend.backend() == "jax"
        signs: tuple = (tf.errors.UnavailableError, tf.errors.AbortedError)
        if is_jax:
            import jax  # pyright: ignore[reportMissingImports]

            signs = (*signs, jax.errors.JaxRuntimeError)
        try:
            yield
        except signs as error:
            if self.host.count == 1:
                raise
            line = "another host of this run was lost; the same command on every host resumes from "
            print(f"{line}the last checkpoint", file=sys.stderr, flush=True)
            if is_jax:
                os._exit(1)  # at an ordinary exit JAX waits 100 s for the lost host, then aborts
            raise SystemExit(1) from error

    def gather(self, number: int) -> list[int]:
        """Waits for all hosts, and returns the number that each of them passed."""
        count = self.host.count
        if count == 1:
            return [number]
        if isinstance(self.strategy, tf.distribute.Strategy):
            contribution = np.where(np.arange(count) == self.host.index, number, 0)
            every = self.strategy.run(lambda: tf.constant(contribution, tf.int64))
            total = self.strategy.reduce(tf.distribute.ReduceOp.SUM, every, axis=None)
            return (total.numpy() // (self.replicas // count)).tolist()
        from jax.experimental import multihost_utils  # pyright: ignore[reportMissingImports]

        return multihost_utils.process_allgather(np.int32(number)).tolist()


def find_devices(
    name: str = "auto",
    tpu: str | None = None,
    *,
    seen: Seen = tf.config.list_physical_devices,
    folder: Path = DEV,
) -> Devices:
    """Finds the devices to train on, TensorFlow's or JAX's, and connects to a TPU.

    The arguments are `RunConfig.strategy` and `tpu`; "mirrored" without GPUs takes logical CPUs.
    If the backend runs on the CPU although `folder` has the device file of a GPU or TPU, a line on
    stderr says so.
    """
    backend = keras.config.backend()
    if backend == "jax":
        require(tpu is None, "tpu: expected none on JAX, which finds its own", repr(tpu))
        devices = _jax_devices(name)
    else:
        devices = _tensorflow_devices(name, tpu_name(tpu, seen), seen)
    if devices.kind == "CPU" and (unseen := unseen_accelerator(backend, folder, seen)):
        print(unseen, file=sys.stderr, flush=True)
    return devices


def unseen_accelerator(
    backend: str, folder: Path = DEV, seen: Seen = tf.config.list_physical_devices
) -> str | None:
    """Returns a line about a GPU or TPU that the backend, running on the CPU, does not see.

    None if there is none, or if the environment hides it: CUDA_VISIBLE_DEVICES, JAX_PLATFORMS.
    """
    for pattern, kind in DEVICE_FILES.items():
        hidden = backend == "jax" and os.environ.get("JAX_PLATFORMS") == "cpu"
        hidden |= kind == "GPU" and os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
        if hidden or (backend == "tensorflow" and seen(kind)):
            continue
        for path in sorted(folder.glob(pattern))[:1]:
            advice = install(f"{'jax-' * (backend == 'jax')}{kind.lower()}")
            if (backend, kind) == ("tensorflow", "TPU"):
                advice = f"train with --tpu local, after {INSTALL_FOR_TPU}"
            return f"{backend} does not see the {kind} {path} and takes the CPU: {advice}"
    return None


def tpu_name(tpu: str | None, seen: Seen) -> str | None:
    """Returns the TPU of the settings, of the environment, or of this machine, if there is one."""
    return tpu or os.environ.get("TPU_NAME") or ("local" if seen("TPU") else None)


def strategy_of(name: str, tpu: str | None, gpus: int) -> str:
    """Returns the strategy that a name stands for; "auto" prefers a TPU, then several GPUs."""
    if name != "auto":
        return name
    return "tpu" if tpu else "mirrored" if gpus > 1 else "one_device"


def _tensorflow_devices(name: str, tpu: str | None, seen: Seen) -> Devices:
    gpus = len(seen("GPU"))
    name = strategy_of(name, tpu, gpus)
    if name == "tpu":
        strategy = _tpu_strategy(tpu)
        return Devices(strategy.num_replicas_in_sync, Host(), "TPU", strategy)
    kind, host = "GPU" if gpus else "CPU", Host()
    if kind == "CPU":
        # One operation at a time, each on all cores: with parallel operations, gradients differed
        # in their last bit from run to run, even under `enable_op_determinism`, so that resumed
        # runs were not exact. Costs up to 17 % of speed. TensorFlow may have started already.
        with suppress(RuntimeError):
            tf.config.threading.set_inter_op_parallelism_threads(1)
    if name == "multi_worker":
        if "TF_CONFIG" not in os.environ:
            raise ValueError(f"strategy=multi_worker: expected {TF_CONFIG}")
        with one_line("strategy=multi_worker: TF_CONFIG or a worker fails"):
            resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
            workers = resolver.cluster_spec().as_dict().get("worker", [""])
            line = f"waiting until these workers have started: {', '.join(workers)}"
            print(line, file=sys.stderr, flush=True)
            strategy: Any = tf.distribute.MultiWorkerMirroredStrategy(resolver)
        host = Host(resolver.task_id or 0, len(workers))
    elif name == "mirrored":
        strategy = _mirrored_strategy(kind)
    else:
        return Devices(1, host, kind)
    return Devices(strategy.num_replicas_in_sync, host, kind, strategy)


@contextmanager
def one_line(what: str) -> Iterator[None]:
    """Turns connection errors into a ValueError of one line that begins with `what`."""
    try:
        yield
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        reason = " ".join(str(error).split())
        if "No OpKernel was registered" in reason:
            reason = f"this TensorFlow is not the one for TPUs: {INSTALL_FOR_TPU}"
        raise ValueError(f"{what}: {reason}") from error


def _tpu_strategy(tpu: str | None) -> tf.distribute.Strategy:
    if tpu is None:
        raise ValueError("strategy=tpu: no TPU found; name one with --tpu NAME or TPU_NAME")
    with one_line(f"the TPU {tpu!r} does not answer"):
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=tpu)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


def _mirrored_strategy(kind: str) -> tf.distribute.Strategy:
    devices = tf.config.list_logical_devices(kind)
    if len(devices) < 2:
        raise refusal("strategy=mirrored: expected two or more devices", devices[0].name)
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def _jax_devices(name: str) -> Devices:
    tf.config.set_visible_devices([], "GPU")  # TensorFlow only reads the data
    if name == "multi_worker":
        names = "KERAS_DISTRIBUTION_JOB_ADDRESSES, _NUM_PROCESSES and _PROCESS_ID"
        with one_line(f"strategy=multi_worker: a host does not answer, or {names} are not set"):
            # Addresses from the environment, KERAS_DISTRIBUTION_*, or from a TPU pod's metadata.
            keras.distribution.initialize()
    import jax  # pyright: ignore[reportMissingImports]

    devices, kind = jax.devices(), jax.default_backend().upper()
    if name == "tpu" and kind != "TPU":
        expected = "strategy=tpu: no TPU found (the extra jax-tpu has what JAX needs)"
        raise refusal(expected, devices[0])
    if name == "mirrored" and len(devices) < 2:
        raise ValueError(f"strategy=mirrored: expected two or more devices. Received: {devices[0]}")
    if name == "one_device" or len(devices) < 2:
        return Devices(1, Host(), kind)
    # Every process already reads its own part of the data.
    strategy = keras.distribution.DataParallel(auto_shard_dataset=False)
    return Devices(len(devices), Host(jax.process_index(), jax.process_count()), kind, strategy)
