"""A compiled training step of several kinds of recipe, on small images.

XLA compiles it for the CPU; tools.compiled compiles steps for TPUs, which are not there.
"""

from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds
from support.pseudo_labels import write_selection
from support.record_files import jpeg, write_tfds

from zoo.config import TrainConfig
from zoo.devices import find_devices
from zoo.train.classification import ClassificationRun

IMAGENET = "imagenet2012"
SHARDS = {"train": 1024, "validation": 64}  # of one image each; the real ones have more
SHALLOW = "lambda_resnet14"  # in place of a deeper ResNet
CASES = {
    "90 epochs": ("resnet50_llll_i224_90ep", SHALLOW),
    "MobileNet, as shipped": ("lambda_mobilenet_v2_i224_350ep", None),
    "Strikes Back": ("lambda_resnet50_rsb_a1", SHALLOW),
    "350 epochs, pseudo-labels": ("lambda_resnet50_i128_350ep_pseudo_labels", SHALLOW),
    "fine-tune": ("fine_tune", None),
    "frozen": ("lambda_resnet26t_fine_tune", None),
}
pytestmark = [pytest.mark.slow, pytest.mark.one_backend]


def write_data(source: str, folder: Path, selected: Path) -> None:
    """Writes made-up images of two classes, or ImageNet and pseudo-labeled images of noise."""
    if source == "image_folder":
        for number in range(20):
            path = folder / ("blue", "red")[number % 2] / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(jpeg(number))
        return
    label = tfds.builder(IMAGENET, data_dir=folder).info.features["label"]
    splits = {name: [(jpeg(0), i % 1000) for i in range(count)] for name, count in SHARDS.items()}
    write_tfds(folder, IMAGENET, splits, label=label, version="5.1.0", per_shard=1)
    images = np.random.default_rng(1).integers(0, 256, (32, 40, 40, 3), "uint8")
    write_selection(selected, images, np.eye(1000)[:32], label.names)


@pytest.mark.parametrize(("name", "network"), CASES.values(), ids=CASES)
def test_classifier(name, network, tmp_path):
    shipped, selected = TrainConfig.from_file(Path(f"tpu_configs/{name}.yaml")), tmp_path / "chosen"
    changes = {
        "model.image_size": 32,
        "data.batch_size": 4,
        "data.dir": tmp_path / "data",
        "output_dir": tmp_path / "run",
        "training.jit_compile": "true",
        "training.steps_per_execution": 1,
        "model.name": network or shipped.model.name,
    }
    if shipped.model.weights:
        changes["model.weights"] = None  # which would be downloaded
    if shipped.data.pseudo.dir:
        changes["data.pseudo.dir"] = selected
    write_data(shipped.data.source, tmp_path / "data", selected)
    words = [str(word) for key, value in changes.items() for word in (f"--{key}", value)]
    config = TrainConfig.from_command_line(["--config", name, *words])
    run = ClassificationRun(config, find_devices("one_device"), False)
    run.load()
    with run.precision(config.training.precision):
        run.build()
        parts = config.training.gradient_accumulation_steps
        batches = run.data.train.batches(4, run.classes, parts=parts, normalize=False)
        run.model.optimizer.build(run.model.trainable_variables)  # as fit does
        run.model.make_train_function()
        loss = run.model.train_function(iter(batches))["loss"]
    assert np.isfinite(float(loss))
    assert int(run.model.optimizer.iterations) == 1
