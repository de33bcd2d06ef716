"""Settings, saved and read back; the Model Garden's experiment of them; recipes of Table 6."""

import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import keras
import pytest
import tensorflow as tf
import tf_keras
import yaml
from official.core import exp_factory
from official.vision.tasks.maskrcnn import MaskRCNNTask

from zoo.cli.tasks import find_task, options
from zoo.detection import train
from zoo.detection.config import DetectionConfig
from zoo.detection.evaluate import TABLE_6
from zoo.detection.experiment import BASE, create_experiment, precision
from zoo.fields import configurations
from zoo.registry import find_model

COCO = {number: f"category {number}" for number in (1, 2, 90)}
RECIPES = sorted(Path("tpu_configs").glob("*_coco.yaml"))


def head(file):
    """Its comments: command, hardware, AP of boxes and of masks."""
    return [line for line in file.read_text().splitlines() if line.startswith("# ")]


def rates(config, *steps):
    experiment = create_experiment(config, COCO)
    optimizer = MaskRCNNTask.create_optimizer(experiment.trainer.optimizer_config)
    return {step: float(optimizer.learning_rate(step)) for step in steps}


def test_six_recipes_of_table_6():
    """Each states its row of the paper's table."""
    rows = {file.stem: re.findall(r"\d+\.\d", "".join(head(file)[2:4])) for file in RECIPES}
    expected = {f"{name}_coco": [*map(str, box + mask)] for name, (box, mask) in TABLE_6.items()}
    assert rows == expected


# All are checked alike, so one of them shows a fault of the code.
QUICK = "lambda_resnet101_coco"
FILES = [
    pytest.param(file, id=file.stem, marks=() if file.stem == QUICK else pytest.mark.slow)
    for file in RECIPES
]


@pytest.mark.parametrize("file", FILES)
def test_recipes_are_those_of_the_paper(file):
    config = DetectionConfig.from_file(file)
    name = file.stem.removesuffix("_coco")
    command, hardware, *_ = head(file)
    program, *arguments = shlex.split(command.removeprefix("# Command: "))[2:]
    assert program == "zoo.train"
    assert find_task(options(arguments)) == "detection"
    named = DetectionConfig.from_command_line(arguments).config
    assert configurations()[str(named)].samefile(file)
    cores, images = map(int, re.findall(r"(\d+) (?:TPU|images|image)", hardware))
    assert cores * images == config.data.batch_size == 256
    assert (config.model.name, config.output_dir) == (name, Path("runs") / file.stem)
    assert find_model(config.model.name)
    assert config.model.weights is None  # from scratch
    experiment = create_experiment(config, COCO)
    task, trainer = experiment.task, experiment.trainer
    assert task.model.input_size == [1024, 1024, 3]
    assert task.model.num_classes == 91
    assert task.model.norm_activation.use_sync_bn
    assert (task.train_data.parser.aug_scale_min, task.train_data.parser.aug_scale_max) == (0.1, 2)
    assert task.losses.l2_weight_decay == 4e-5
    assert task.init_checkpoint is None
    assert task.train_data.global_batch_size == 256
    assert task.train_data.dtype == experiment.runtime.mixed_precision_dtype == "bfloat16"
    assert trainer.train_steps == 130_000
    expected = {0: 0, 500: 0.16, 1000: 0.32, 117_000: 0.32, 117_001: 0.032}
    expected |= {123_501: 0.0032, 126_751: 0.00032}
    assert rates(config, *expected) == pytest.approx(expected)


PARTS = (
    "anchor decoder rpn_head detection_head roi_generator roi_sampler roi_aligner "
    "detection_generator mask_head mask_sampler mask_roi_aligner norm_activation"
)


def test_everything_else_is_the_model_gardens():
    config = DetectionConfig.from_file(Path("tpu_configs/lambda_resnet101_coco.yaml"))
    ours = create_experiment(config, COCO).as_dict()
    theirs = exp_factory.get_exp_config(BASE).as_dict()
    for part in PARTS.split():
        assert ours["task"]["model"][part] == theirs["task"]["model"][part]
    assert ours["task"]["train_data"]["parser"]["aug_rand_hflip"]
    assert ours["task"]["losses"] == theirs["task"]["losses"]
    sgd, expected = (one["trainer"]["optimizer_config"]["optimizer"] for one in (ours, theirs))
    assert sgd["sgd"] == expected["sgd"]


WRONG_HEADS = {
    "{necks: {}}": "expected fields of the Model Garden's MaskRCNN. Received: 'necks'",
    "{rpn_head: {filters: 3}}": "Received: 'rpn_head.filters'",
    "{rpn_head: 3}": "rpn_head: expected fields. Received: 3",
    "{num_classes: 3}": "num_classes: expected no value, for the categories of the data",
    "{input_size: [64, 64, 3]}": "model.image_size decides it",
    "{backbone: {type: resnet}}": "backbone: expected no value, for model.name",
    "{norm_activation: {norm_momentum: 0.9}}": "model.batch_norm_momentum decides it",
    "{outer_boxes_scale: 2.0}": "outer_boxes_scale: expected no value",
    "{detection_generator: {apply_nms: false}}": "apply_nms: expected no value",
    "{detection_generator: {max_num_detections: 0}}": "max_num_detections: out of range",
    "{detection_generator: {nms_version: tflite}}": "nms_version: out of range",
    "{roi_generator: {num_proposals: 0}}": "num_proposals: out of range. Received: 0",
    "{decoder: {fpn: {num_filters: 0}}}": "decoder.fpn.num_filters: out of range",
    "{decoder: {fpn: {num_filters: x}}}": "decoder.fpn.num_filters: Input should be a valid intege",
    "{decoder: {fpn: {num_filters: true}}}": "should be a valid integer. Received: True",
    "{rpn_head: {num_filters: 1000000000}}": "rpn_head.num_filters: out of range",
    "{anchor: {aspect_ratios: []}}": "anchor.aspect_ratios: out of range",
    "{anchor: {anchor_size: .nan}}": "anchor.anchor_size: Input should be a finite number",
    "{min_level: 1}": "expected min_level from 2 to 5",
    "{max_level: 7}": "max_level from that to 6",
    "{min_level: 5, max_level: 4}": "Received: min_level=5, max_level=4",
    "{anchor: {anchor_size: -1.0}}": "anchor.anchor_size: out of range. Received: -1.0",
    "{anchor: {anchor_size: 1.0e+9}}": "anchor.anchor_size: out of range",
    "{anchor: {aspect_ratios: [1.0, -2.0]}}": "anchor.aspect_ratios: out of range",
    "{include_mask: 3}": "include_mask: Input should be a valid boolean",
}


@pytest.mark.parametrize(("heads", "message"), WRONG_HEADS.items())
def test_heads_that_do_not_fit(heads, message):
    model = {"heads": yaml.safe_load(heads)}
    with pytest.raises(ValueError, match=r"^model\.heads: .*" + re.escape(message)):
        create_experiment(DetectionConfig(model=model), COCO)


EDGE = [
    {"detection_head": {"num_convs": 0, "num_fcs": 0}, "mask_head": {"num_convs": 0}},
    {"min_level": 5, "max_level": 5},
    {"detection_generator": {"nms_version": "batched"}},
    {"anchor": {"anchor_size": 0.5}},
]


@pytest.mark.parametrize("heads", EDGE)
def test_heads_at_the_edge_of_what_fits(heads):
    model = create_experiment(DetectionConfig(model={"heads": heads}), COCO).task.model.as_dict()
    for group, values in heads.items():
        assert model[group] == (model[group] | values if isinstance(values, dict) else values)


@pytest.mark.parametrize("heads", [{"roi_generator": {"use_batched_nms": True}}, EDGE[2]])
def test_batched_suppression_takes_float32_alone(heads):
    settings = {"model": {"heads": heads}, "training": {"precision": "mixed_bfloat16"}}
    with pytest.raises(ValueError, match=f"mixed_bfloat16. Received: {next(iter(heads))}"):
        create_experiment(DetectionConfig(**settings), COCO)


def test_precision_is_that_of_a_block():
    policies = tf_keras.mixed_precision, keras.config.dtype_policy
    before = policies[0].global_policy().name, policies[1]().name
    with precision("mixed_bfloat16"):
        assert policies[0].global_policy().name == policies[1]().name == "mixed_bfloat16"
    assert (policies[0].global_policy().name, policies[1]().name) == before


@pytest.mark.parametrize(
    ("asked", "masks", "expected"),
    [({}, True, True), ({}, False, False), ({"include_mask": False}, True, False)],
)
def test_boxes_alone(asked, masks, expected):
    """Data without masks, or the setting, leave out the head of masks."""
    config = DetectionConfig(model={"heads": asked})
    assert create_experiment(config, COCO, masks=masks).task.model.include_mask is expected


def test_settings_reach_the_experiment():
    """Each with a value of its own; the data say how many objects there are."""
    words = (
        "--model.overrides stem=rs --model.freeze_backbone true --model.image_size 128 "
        "--model.batch_norm_momentum 0.7 --model.synchronized_batch_norm false --data.dir a/[b] "
        "--data.scale_min 0.3 --data.scale_max 1.5 --data.batch_size 6 --data.test_batch_size 3 "
        "--data.shuffle_buffer 77 --optimizer.weight_decay 3e-5 --optimizer.momentum 0.8 "
        "--optimizer.warmup_steps 40 --optimizer.decay_at 0.5 --training.steps 1000 "
        "--training.evaluation_steps 500 --training.checkpoint_steps 250 "
        "--training.steps_per_execution 50 --training.precision float32"
    )
    config = DetectionConfig.from_command_line(words.split())
    experiment = create_experiment(config, {4: "a"}, most_objects=160)
    task, trainer = experiment.task, experiment.trainer
    model, losses, train, test = task.model, task.losses, task.train_data, task.validation_data
    assert task.freeze_backbone
    assert not create_experiment(DetectionConfig(), COCO).task.freeze_backbone
    assert (model.num_classes, model.input_size) == (5, [128, 128, 3])
    assert model.backbone.get().overrides.as_dict() == {"stem": "rs"}
    norm = model.norm_activation
    assert (norm.norm_momentum, norm.use_sync_bn) == (0.7, False)
    assert (model.detection_generator.max_num_detections, task.use_coco_metrics) == (160, False)
    assert losses.l2_weight_decay == 3e-5
    paths = (train.input_path, test.input_path)
    assert paths == ("a/[[]b]/train-*.tfrecord", "a/[[]b]/val-*.tfrecord")
    assert (train.global_batch_size, test.global_batch_size) == (6, 3)
    assert train.dtype == test.dtype == experiment.runtime.mixed_precision_dtype == "float32"
    assert train.shuffle_buffer_size == 77
    assert (train.parser.aug_scale_min, train.parser.aug_scale_max) == (0.3, 1.5)
    assert train.parser.max_num_instances == test.parser.max_num_instances == 160
    assert (trainer.train_steps, trainer.validation_steps) == (1000, -1)
    assert (trainer.validation_interval, trainer.checkpoint_interval) == (500, 250)
    assert (trainer.steps_per_loop, trainer.summary_interval) == (50, 50)
    optimizer, warmup = trainer.optimizer_config, trainer.optimizer_config.warmup.get()
    assert optimizer.optimizer.get().momentum == 0.8
    assert (warmup.warmup_steps, warmup.warmup_learning_rate) == (40, 0)
    steps, rate = optimizer.learning_rate.get(), config.optimizer.learning_rate * 6 / 256
    assert steps.boundaries == [500]
    assert steps.values == pytest.approx([rate, rate / 10])


def test_a_resumed_run_reads_on_from_its_step(tmp_path):
    """A new one from the first one, as test_checks.py has it."""
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(), str(tmp_path), max_to_keep=1)
    manager.save(checkpoint_number=40)
    run = SimpleNamespace(config=1, _checkpoints=str(tmp_path), annotations=4, _counts=5)
    run.experiment = SimpleNamespace(task=None)  # of which no model can be built
    with pytest.raises(AttributeError):
        train.DetectionRun.build(run)
    assert run.task.training_records.args == (1, 5, 40)


def test_rate_scales_with_the_batch_and_needs_no_steps():
    config = DetectionConfig(data={"batch_size": 64}, optimizer={"warmup_steps": 0, "decay_at": []})
    assert rates(config, 1, 22_499) == pytest.approx({1: 0.08, 22_499: 0.08})
