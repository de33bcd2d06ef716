"""Choosing devices."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo import devices


@pytest.fixture(autouse=True)
def nothing_in_the_environment(environ):
    """Neither a cluster nor what hides accelerators, as the environment of tests does."""
    names = ("TPU_NAME", "TF_CONFIG", "CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS")
    environ(**dict.fromkeys(names))


def nothing(kind):
    return []


def gpu(kind):
    return ["a GPU"] * (kind == "GPU")


def test_auto_on_one_cpu_is_one_device():
    chosen = devices.find_devices("auto")
    assert chosen == devices.Devices(1, devices.Host(), "CPU")
    assert str(chosen) == "CPU, 1 replica(s)"
    assert chosen.chief
    assert str(devices.Devices(8, devices.Host(1, 2), "TPU")) == "TPU, 8 replica(s) on 2 hosts"
    assert not devices.Devices(8, devices.Host(1, 2), "TPU").chief


@settings(deadline=None, derandomize=True, max_examples=50)
@given(count=st.integers(1, 6), share=st.integers(1, 4), steps=st.integers(1, 3))
def test_hosts_share_every_batch(count, share, steps):
    size, hosts = count * share, devices.ONLY_HOST.split(count)
    for index, host in enumerate(hosts):
        assert (host, host.size(size)) == (devices.Host(index, count), share)
        own = [host.number(position, size) for position in range(share * steps)]
        batches = np.arange(size * steps).reshape(steps, count, share)
        assert own == batches[:, index].ravel().tolist()
        halves = [devices.Host(2 * index, 2 * count), devices.Host(2 * index + 1, 2 * count)]
        assert (host.split(2 * count), host.split(count)) == (halves, [host])
        assert count == 1 or host.split(count + 1) == [host]  # which it does not divide
    with pytest.raises(ValueError, match="expected a multiple of 7, the number of hosts"):
        devices.Host(1, 7).size(6)


@pytest.mark.parametrize(
    ("name", "tpu", "gpus", "expected"),
    [("auto", None, gpus, "one_device") for gpus in (0, 1)]
    + [("auto", "t", gpus, "tpu") for gpus in (0, 2)]
    + [("auto", None, 2, "mirrored"), ("one_device", "t", 2, "one_device")],
)
def test_auto_prefers_tpu_then_several_gpus(name, tpu, gpus, expected):
    assert devices.strategy_of(name, tpu, gpus) == expected


def test_name_of_a_tpu(environ):
    assert devices.tpu_name(None, nothing) is None
    assert devices.tpu_name(None, lambda kind: [kind]) == "local"
    environ(TPU_NAME="from-environment")
    assert devices.tpu_name(None, nothing) == "from-environment"
    assert devices.tpu_name("named", nothing) == "named"


def test_replicas_divide_the_batch_of_all_hosts():
    four = devices.Devices(4, devices.Host(), "CPU", tf.distribute.OneDeviceStrategy("cpu:0"))
    (batch, *_) = four.distribute(lambda _: tf.data.Dataset.range(8).batch(8), 8)
    assert batch.numpy().tolist() == [0, 1]


def test_tpu_without_the_wheel_for_tpus_names_the_extra():
    operation = "No OpKernel was registered to support Op 'ConfigureDistributedTPU'"
    message = r"^the TPU 'local': .* pip install 'SOURCE\[tpu\]', SOURCE"
    with pytest.raises(ValueError, match=message), devices.one_line("the TPU 'local'"):
        raise tf.errors.InvalidArgumentError(None, None, operation)


@pytest.mark.usefixtures("on_jax")
def test_jax_takes_no_name_of_a_tpu():
    with pytest.raises(ValueError, match=r"expected none on JAX.* Received: 'local'"):
        devices.find_devices("auto", "local")


CPU = "{} and takes the CPU: pip install 'SOURCE["
UNSEEN = [
    ("nvidia0", "tensorflow", "the GPU " + CPU + "gpu]'"),
    ("nvidia0", "jax", "the GPU " + CPU + "jax-gpu]'"),
    ("accel0", "tensorflow", "after pip uninstall tensorflow, then pip install 'SOURCE[tpu]'"),
    ("accel3", "jax", "the TPU " + CPU + "jax-tpu]'"),
    ("vfio/0", "jax", "the TPU " + CPU + "jax-tpu]'"),
    ("nvidia-uvm", "tensorflow", None),
    ("vfio/vfio", "tensorflow", None),
]


@pytest.mark.parametrize(("file", "backend", "line"), UNSEEN)
def test_accelerator_that_the_backend_does_not_see(tmp_path, environ, file, backend, line):
    """Unless the environment hides it on purpose."""
    assert devices.unseen_accelerator(backend, tmp_path) is None
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    said = devices.unseen_accelerator(backend, tmp_path)
    assert said == line or said.startswith(f"{backend} does not see the ")
    assert line is None or line.format(tmp_path / file) in said
    seen = devices.unseen_accelerator(backend, tmp_path, lambda kind: [kind])
    assert seen == (said if backend == "jax" else None)
    environ(CUDA_VISIBLE_DEVICES="-1")
    assert devices.unseen_accelerator(backend, tmp_path) == (None if "nvidia" in file else said)
    environ(CUDA_VISIBLE_DEVICES=None, JAX_PLATFORMS="cpu")
    assert devices.unseen_accelerator(backend, tmp_path) == (None if backend == "jax" else said)


@pytest.mark.parametrize(("file", "seen"), [("nvidia0", nothing), ("accel0", gpu)])
def test_run_on_the_cpu_says_which_accelerator_it_misses(tmp_path, capsys, file, seen):
    (tmp_path / file).touch()
    devices.find_devices("one_device", seen=seen, folder=tmp_path)
    said = devices.unseen_accelerator("tensorflow", tmp_path, seen)
    assert said
    assert capsys.readouterr().err == (f"{said}\n" if seen is nothing else "")
