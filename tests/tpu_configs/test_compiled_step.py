"""A compiled training step of several kinds of recipe, on small images.

XLA compiles it for the CPU; tools.compiled compiles steps for TPUs, which are not there.
"""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from zoo.config import TrainConfig
from zoo.detection.config import DetectionConfig
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
DETECTORS = {"detection": "lambda_resnet14_shapes"}
CASES = [pytest.param(*case, id=kind) for kind, case in CLASSIFIERS.items()]
pytestmark = [pytest.mark.slow, pytest.mark.one_backend]


def changed(kind: type, name: str, changes: dict):
    """Settings of a recipe with a few other values."""
    words = [str(word) for key, value in changes.items() for word in (f"--{key}", value)]
    return kind.from_command_line(["--config", name, *words])


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
    config = changed(TrainConfig, name, changes)
    run = ClassificationRun(config, find_devices("one_device"), False)
    run.load()
    with run.precision(config.training.precision):
        run.build()
        parts = config.training.gradient_accumulation_steps
        batches = run.data.train.batches(config.data.batch_size, run.classes, parts=parts)
        run.model.optimizer.build(run.model.trainable_variables)  # as fit does
        run.model.make_train_function()
        logs = run.model.train_function(iter(batches))
    assert np.isfinite(float(logs["loss"]))
    assert int(run.model.optimizer.iterations) == 1


@pytest.mark.needs("official")
@pytest.mark.parametrize("kind", DETECTORS)
def test_detector(kind, sharded, tmp_path):
    from zoo.detection.train import DetectionRun

    changes = {
        "model.image_size": 64,
        "data.batch_size": 2,
        "data.dir": sharded,
        "output_dir": tmp_path / "run",
    }
    config = changed(DetectionConfig, DETECTORS[kind], changes)
    run = DetectionRun(config, find_devices("one_device"), False)
    run.load()
    with run.precision(config.training.precision):
        run.build()
        inputs = next(iter(run.task.build_inputs(run.experiment.task.train_data)))
        optimizer = run.trainer.optimizer
        step = tf.function(
            lambda inputs: run.task.train_step(inputs, run.model, optimizer), jit_compile=True
        )
        before = [np.array(variable) for variable in run.model.backbone.trainable_variables]
        for _ in range(2):  # the rate of the first step is 0
            assert np.isfinite(float(step(inputs)[run.task.loss]))
        assert int(optimizer.iterations) == 2
        after = [np.array(variable) for variable in run.model.backbone.trainable_variables]
        assert not all(map(np.array_equal, before, after))
