"""Choosing devices."""

import json
import subprocess
import sys

import keras
import pytest
import tensorflow as tf

from zoo import devices
from zoo.config import DataConfig
from zoo.data.load import load_data
from zoo.devices import Devices, Host, find_devices, unseen_accelerator
from zoo.inference.classifier import predict

TWO_CPUS = """
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
"""


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch):
    for name in ("TPU_NAME", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def nothing_hidden(monkeypatch):
    """The environment does not hide accelerators, as that of tests does."""
    for name in ("CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS"):
        monkeypatch.delenv(name, raising=False)


def test_auto_on_one_cpu_is_one_device():
    chosen = find_devices("auto")
    assert chosen == Devices(1, Host(), "CPU")
    assert str(chosen) == "CPU, 1 replica(s)"
    assert chosen.chief
    assert str(Devices(8, Host(1, 2), "TPU")) == "TPU, 8 replica(s) on 2 hosts"
    assert not Devices(8, Host(1, 2), "TPU").chief


def test_hosts_share_every_batch():
    host = Host(1, 2)
    assert host.size(6) == 3
    assert [host.number(position, 6) for position in range(5)] == [3, 4, 5, 9, 10]
    assert host.split(6) == [Host(3, 6), Host(4, 6), Host(5, 6)]
    assert host.split(3) == [host]
    with pytest.raises(ValueError, match="expected a multiple of 2, the number of hosts"):
        host.size(7)


@pytest.mark.parametrize(
    ("gpus", "tpu", "expected"),
    [
        (0, None, None),
        (1, None, None),
        (2, None, "mirrored"),
        (2, "t", "tpu"),
        (0, "t", "tpu"),
    ],
)
def test_auto_prefers_tpu_then_several_gpus(monkeypatch, gpus, tpu, expected):
    monkeypatch.setattr(devices, "_physical", lambda kind: ["gpu"] * gpus * (kind == "GPU"))
    monkeypatch.setattr(devices, "_tpu_strategy", lambda name: Strategy("tpu"))
    monkeypatch.setattr(devices, "_mirrored_strategy", lambda kind: Strategy("mirrored"))
    chosen = find_devices("auto", tpu).strategy
    assert (chosen and chosen.name) == expected


class Strategy:
    num_replicas_in_sync = 2

    def __init__(self, name):
        self.name = name


def test_replicas_divide_the_batch_of_all_hosts():
    four = Devices(4, Host(), "CPU", tf.distribute.OneDeviceStrategy("cpu:0"))
    (batch, *_) = four.distribute(lambda _: tf.data.Dataset.range(8).batch(8), 8)
    assert batch.numpy().tolist() == [0, 1]


def test_tpu_name_from_the_environment(monkeypatch):
    monkeypatch.setenv("TPU_NAME", "from-environment")
    monkeypatch.setattr(devices, "_tpu_strategy", Strategy)
    assert find_devices("auto").strategy.name == "from-environment"
    assert find_devices("auto", "named").strategy.name == "named"


def test_devices_that_are_not_there():
    with pytest.raises(ValueError, match="no TPU found"):
        find_devices("tpu")
    with pytest.raises(ValueError, match="two or more devices"):
        find_devices("mirrored")
    with pytest.raises(ValueError, match="expected TF_CONFIG in the environment"):
        find_devices("multi_worker")


def test_tpu_without_the_wheel_for_tpus_names_the_extra(monkeypatch):
    def connect(_):
        raise tf.errors.InvalidArgumentError(
            None, None, "No OpKernel was registered to support Op 'ConfigureDistributedTPU'"
        )

    resolver = "TPUClusterResolver"
    monkeypatch.setattr(tf.distribute.cluster_resolver, resolver, lambda tpu: None)
    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", connect)
    with pytest.raises(
        ValueError, match=r"^the TPU 'local' .* pip install 'SOURCE\[tpu\]', SOURCE"
    ):
        find_devices("tpu", "local")


def test_jax_takes_no_name_of_a_tpu(monkeypatch):
    monkeypatch.setattr(devices.keras.backend, "backend", lambda: "jax")
    with pytest.raises(ValueError, match=r"expected none on JAX.* Received: 'local'"):
        find_devices("auto", "local")


@pytest.mark.parametrize(
    ("file", "backend", "line"),
    [
        ("nvidia0", "tensorflow", "the GPU {} and takes the CPU: pip install 'SOURCE[gpu]'"),
        ("nvidia0", "jax", "the GPU {} and takes the CPU: pip install 'SOURCE[jax-gpu]'"),
        (
            "accel0",
            "tensorflow",
            "--tpu local, after pip uninstall tensorflow, then pip install 'SOURCE[tpu]'",
        ),
        ("accel3", "jax", "the TPU {} and takes the CPU: pip install 'SOURCE[jax-tpu]'"),
        ("vfio/0", "jax", "the TPU {} and takes the CPU: pip install 'SOURCE[jax-tpu]'"),
        ("nvidia-uvm", "tensorflow", None),
        ("vfio/vfio", "tensorflow", None),
    ],
)
@pytest.mark.usefixtures("nothing_hidden")
def test_accelerator_that_the_backend_does_not_see(tmp_path, file, backend, line):
    assert unseen_accelerator(backend, tmp_path) is None
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    said = unseen_accelerator(backend, tmp_path)
    assert said == line or said.startswith(f"{backend} does not see the ")
    assert line is None or line.format(tmp_path / file) in said


@pytest.mark.usefixtures("nothing_hidden")
def test_accelerator_that_is_seen_or_hidden_on_purpose(tmp_path, monkeypatch):
    (tmp_path / "nvidia0").touch()
    with monkeypatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "-1")
        assert unseen_accelerator("tensorflow", tmp_path) is None
    monkeypatch.setattr(devices, "_physical", lambda kind: [kind])
    assert unseen_accelerator("tensorflow", tmp_path) is None
    assert "the GPU" in unseen_accelerator("jax", tmp_path)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert unseen_accelerator("jax", tmp_path) is None


def test_run_on_the_cpu_says_which_accelerator_it_misses(monkeypatch, capsys):
    monkeypatch.setattr(devices, "unseen_accelerator", lambda backend: f"{backend} misses it")
    find_devices("one_device")
    assert capsys.readouterr().err == "tensorflow misses it\n"
    monkeypatch.setattr(devices, "_physical", lambda kind: ["gpu"] * (kind == "GPU"))
    find_devices("one_device")
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_training_on_two_devices(tmp_path):
    code = f"""{TWO_CPUS}
from zoo.train import __main__ as train
train.main("--strategy mirrored --model.image_size 8 --training.epochs 1 "
           "--optimizer.warmup_epochs 0 --output_dir {tmp_path}/run".split())
try:
    train.main("--strategy mirrored --data.batch_size 63 --output_dir {tmp_path}/odd".split())
except ValueError as error:
    print(error)
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert "CPU, 2 replica(s)" in process.stdout
    assert "data.batch_size: expected a multiple of 2" in process.stdout
    # One device agrees with what two have found.
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    model = keras.models.load_model(tmp_path / "run" / "model.keras")
    images, labels = load_data(DataConfig(), 8).test.sample(1000)
    accuracy = (predict(model, images).argmax(-1) == labels).mean()
    assert metrics["test"]["accuracy"] == pytest.approx(accuracy, abs=1e-6)
    assert not (tmp_path / "odd").exists()
