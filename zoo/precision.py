"""Precision: the dtype policy of Keras, and which one is fast on a device."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Instructions with which TensorFlow's library computes bfloat16 in half of float32's time.
BFLOAT16 = frozenset({"avx512_bf16", "amx_bf16"})


CPU_INFO = Path("/proc/cpuinfo")


def instruction_sets(info: Path = CPU_INFO) -> frozenset[str]:
    """Returns the instruction sets of the CPU, by Linux' names; none on other systems."""
    known = re.search(r"^flags\s*:(.*)", info.read_text() if info.is_file() else "", re.M)
    return frozenset(known[1].split() if known else ())


def resolve_precision(
    policy: str | None, kind: str | None = None, info: Path = CPU_INFO
) -> str | None:
    """Replaces `auto` by the dtype policy that is fast on a kind of device, and prints it.

    mixed_bfloat16 is chosen on TPUs and, with TensorFlow, on CPUs with AVX-512 BF16 or AMX; float32
    elsewhere.
    The kind is "CPU", "GPU" or "TPU"; None: the kind of the backend's device.
    """
    if policy != "auto":
        return policy
    from keras import config

    from lambda_keras.layers.position_lambdas import device_kind

    kind = (kind or device_kind()).upper()
    has = sorted(instruction_sets(info) & BFLOAT16) if config.backend() == "tensorflow" else []
    fast = kind == "TPU" or (kind == "CPU" and has)
    chosen = "mixed_bfloat16" if fast else "float32"
    print(f"precision: {chosen} ({', '.join(['auto', kind, *has * (kind == 'CPU')])})", flush=True)
    return chosen


@contextmanager
def precision(policy: str) -> Iterator[None]:
    """Sets a dtype policy of Keras in the `with` block."""
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
