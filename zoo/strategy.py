"""Which devices a run uses."""

import os

import tensorflow as tf


def create_strategy(name: str = "auto", tpu: str | None = None) -> tf.distribute.Strategy:
    """Returns the strategy to build and train a model in.

    Args:
        name: "tpu"; "mirrored", all GPUs of this machine (without any, its logical CPUs);
            "one_device"; or "auto": a TPU if one is named or found, else all GPUs if there are
            several, else one device.
        tpu: Name or address of the TPU, "local" on a TPU VM. Defaults to None: the environment
            variable TPU_NAME, else the TPU of this machine.

    Raises:
        ValueError: If this machine does not have the devices, or the TPU does not answer.
    """
    tpu = tpu or os.environ.get("TPU_NAME") or ("local" if _devices("TPU") else None)
    if name == "tpu" or (name == "auto" and tpu):
        return _tpu_strategy(tpu)
    if name == "mirrored" or (name == "auto" and len(_devices("GPU")) > 1):
        return _mirrored_strategy()
    if name in ("auto", "one_device"):
        return tf.distribute.get_strategy()  # TensorFlow's default: one device, no copies
    raise ValueError(
        f"expected strategy to be auto, tpu, mirrored or one_device. Received: {name!r}"
    )


def describe(strategy: tf.distribute.Strategy) -> str:
    """Returns what the strategy runs on, in words."""
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return f"TPU, {strategy.num_replicas_in_sync} cores"
    kind = "GPU" if _devices("GPU") else "CPU"
    return f"{kind}, {strategy.num_replicas_in_sync} replica(s)"


def _tpu_strategy(tpu: str | None) -> tf.distribute.Strategy:
    if tpu is None:
        raise ValueError("strategy=tpu: no TPU found; name one with --tpu NAME or TPU_NAME")
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=tpu)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"the TPU {tpu!r} does not answer: {reason}") from error
    return tf.distribute.TPUStrategy(resolver)


def _mirrored_strategy() -> tf.distribute.Strategy:
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if len(devices) < 2:
        raise ValueError(
            f"strategy=mirrored: expected two or more devices. Received: {devices[0].name}"
        )
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def _devices(kind: str) -> list:
    return tf.config.list_physical_devices(kind)
