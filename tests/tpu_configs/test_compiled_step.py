"""A compiled training step of several kinds of recipe, on small images.

XLA compiles it for the CPU; tools.compiled compiles steps for TPUs, which are not there.
"""

from pathlib import Path

import numpy as np
import pytest

from zoo.config import TrainConfig
from zoo.devices import find_devices
from zoo.train.classification import ClassificationRun

SHALLOW = "lambda_resnet14"  # in place of a deeper ResNet
CLASSIFIERS = {
    "90 epochs": ("resnet50_llll_i224_90ep", SHALLOW),
    "MobileNet, as shipped": ("lambda_mobilenet_v2_i224_350ep", None),
    "Strikes Back": ("lambda_resnet50_rsb_a1", SHALLOW),
    "350 epochs, pseudo-labels": ("lambda_resnet50_i128_350ep_pseudo_labels", SHALLOW),
    "fine-tune": ("fine_tune", None),
    "frozen": ("lambda_resnet26t_fine_tune", None),
}
CASES = [pytest.param(*case, id=kind) for kind, case in CLASSIFIERS.items()]
pytestmark = [pytest.mark.slow, pytest.mark.one_backend]


@pytest.mark.parametrize(("name", "network"), CASES)
def test_classifier(name, network, imagenet, photos, pseudo_labels, tmp_path):
    shipped = TrainConfig.from_file(Path(f"tpu_configs/{name}.yaml"))
    changes = {
        "model.image_size": 32,
        "data.batch_size": 4,
        "data.dir": photos if shipped.data.source == "image_folder" else imagenet,
        "output_dir": tmp_path / "run",
        "training.jit_compile": "true",
        "training.steps_per_execution": 1,
    }
    if network:
        changes["model.name"] = network
    if shipped.model.weights:
        changes["model.weights"] = None  # which would be downloaded
    if shipped.data.pseudo.dir:
        changes["data.pseudo.dir"] = pseudo_labels
    words = [str(word) for key, value in changes.items() for word in (f"--{key}", value)]
    config = TrainConfig.from_command_line(["--config", name, *words])
    run = ClassificationRun(config, find_devices("one_device"), False)
    run.load()
    with run.precision(config.training.precision):
        run.build()
        parts = config.training.gradient_accumulation_steps
        batches = run.data.train.batches(
            config.data.batch_size, run.classes, parts=parts, normalize=False
        )
        run.model.optimizer.build(run.model.trainable_variables)  # as fit does
        run.model.make_train_function()
        logs = run.model.train_function(iter(batches))
    assert np.isfinite(float(logs["loss"]))
    assert int(run.model.optimizer.iterations) == 1
