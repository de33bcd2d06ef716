"""Changes of a network by its recipe before training."""

import keras
import numpy as np
import pytest
from support import networks

from lambda_keras.layers import HaloAttention
from lambda_keras.weights import hub
from zoo.config import DistillationConfig, ModelConfig, TrainConfig
from zoo.registry import create_model
from zoo.train import classification
from zoo.train.network import create_network, load_teacher, prepare
from zoo.train.optimizer import add_weight_decay


def network_of(classes=3, **settings):
    config = ModelConfig(image_size=16, **settings)
    network = create_network(config, classes)
    prepare(network, config)
    return network


def saved(tmp_path, classes=3):
    network = network_of(classes=classes)
    networks.randomize(network)
    network.save_weights(tmp_path / "w.weights.h5")
    return network, str(tmp_path / "w.weights.h5")


def test_overrides_reach_the_constructor():
    network = network_of(overrides={"dropout_rate": 0.3})
    rates = [layer.rate for layer in network.layers if isinstance(layer, keras.layers.Dropout)]
    assert rates == [0.3]


def test_another_mixer():
    network = network_of(overrides={"mixer": "halo", "num_heads": "4", "block_size": "2"})
    layers = [layer for layer in network.layers if isinstance(layer, HaloAttention)]
    assert [(layer.num_heads, layer.block_size) for layer in layers] == [(4, 2)] * 2


def momenta(network):
    return {
        layer.momentum
        for layer in network._flatten_layers()
        if isinstance(layer, keras.layers.BatchNormalization)
    }


def test_momentum_of_runs_is_not_that_of_constructors():
    """Recipes without one keep the momentum that runs have always had."""
    assert momenta(network_of()) == {0.99}
    assert momenta(network_of(batch_norm_momentum=None)) == {0.9}


@pytest.mark.parametrize("mixer", ["lambda", "axial"])
def test_batch_normalisation_of_every_layer(mixer):
    settings = {"batch_norm_momentum": 0.9, "synchronized_batch_norm": True}
    network = network_of(overrides={"mixer": mixer}, **settings)
    layers = [
        layer
        for layer in network._flatten_layers()
        if isinstance(layer, keras.layers.BatchNormalization)
    ]
    # Layers within lambda layers and axial attention are no layers of the network itself.
    assert len(layers) > sum(
        isinstance(layer, keras.layers.BatchNormalization) for layer in network.layers
    )
    assert momenta(network) == {0.9}
    assert {layer.synchronized for layer in layers} == {True}


def test_frozen_backbone_leaves_the_classifier():
    network = network_of(freeze_backbone=True)
    add_weight_decay(network, 0.1)
    assert [v.path.split("/")[-2:] for v in network.trainable_variables] == [
        ["predictions", "kernel"],
        ["predictions", "bias"],
    ]
    assert len(network.losses) == 1


@pytest.mark.parametrize(
    ("stage", "first"), [("stem", "c2_block1"), ("c3", "c4_block1"), ("c5", "predictions")]
)
def test_frozen_up_to_a_stage(stage, first):
    """Neither weights nor batch statistics of what is frozen change."""
    network = network_of(freeze_up_to=stage)
    trained = [layer.name for layer in network.layers if layer.trainable and layer.weights]
    assert trained[0].startswith(first)
    frozen = [layer for layer in network.layers if not layer.trainable]
    assert frozen[0] is network.layers[0]
    assert not [variable for layer in frozen for variable in layer.trainable_variables]
    statistics = networks.values(v for layer in frozen for v in layer.weights)
    network(networks.images(2, 16, 16, 3), training=True)
    now = networks.values(v for layer in frozen for v in layer.weights)
    for one, other in zip(statistics, now, strict=True):
        np.testing.assert_array_equal(one, other)


def test_weights_of_the_same_classes(tmp_path):
    expected, weights = saved(tmp_path)
    received = network_of(weights=weights)
    for one, other in zip(expected.get_weights(), received.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_weights_of_other_classes_are_those_of_the_backbone(tmp_path, capsys):
    expected, weights = saved(tmp_path, classes=7)
    received = network_of(weights=weights)
    assert "the classifier starts from random weights" in capsys.readouterr().out
    assert received.output_shape == (None, 3)
    for layer in expected.layers:
        if layer.name != "predictions":
            for one, other in zip(
                layer.get_weights(), received.get_layer(layer.name).get_weights(), strict=True
            ):
                np.testing.assert_array_equal(one, other)


def test_warm_start_takes_the_layers_in_common(tmp_path, capsys):
    convolutions = {"placement": "CCCC"}
    source = network_of(overrides=convolutions)
    networks.randomize(source)
    path = tmp_path / "w.weights.h5"
    source.save_weights(path)
    arguments = {"weights": str(path), "weights_model": "lambda_resnet14"}
    keras.utils.set_random_seed(1)
    fresh = network_of()
    keras.utils.set_random_seed(1)
    network = network_of(**arguments, weights_overrides=convolutions)
    random = ["c4_block1_2_lambda", "c5_block1_2_lambda", "predictions"]
    assert f"of the parameters; random: {', '.join(random)}\n" in capsys.readouterr().out
    for layer in network.layers:
        model = fresh if layer.name in random else source
        for one, other in zip(
            model.get_layer(layer.name).get_weights(), layer.get_weights(), strict=True
        ):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights_model": "resnet50"}, "weights_model=resnet50 needs weights"),
        ({"weights_overrides": {"placement": "CCCC"}}, "weights_overrides needs weights_model"),
        ({"weights_overrides": {"classes": 5}}, "Received: classes"),
        ({"weights": "imagenet", "weights_model": "resnet51"}, "did you mean"),
    ],
)
def test_warm_start_from_nothing(settings, message):
    with pytest.raises(ValueError, match=message):
        ModelConfig(**settings)


def test_warm_start_from_a_network_with_nothing_in_common(tmp_path):
    _, weights = saved(tmp_path)
    config = ModelConfig(name="mobilenet_v2", image_size=32, weights=weights)
    config = config.model_copy(update={"weights_model": "lambda_resnet14"})
    with pytest.raises(ValueError, match=r"model\.weights_model: .*common with mobilenet_v2"):
        prepare(create_network(config, 3), config)


def test_weights_of_another_network_are_refused(tmp_path):
    _, weights = saved(tmp_path)
    config = ModelConfig(name="resnet50", image_size=32, weights=weights)
    with pytest.raises(ValueError, match=r"model\.weights: .*do not fit the model"):
        prepare(create_network(config, 3), config)


def test_weights_that_nobody_published_are_refused():
    with pytest.raises(
        ValueError, match=r"model\.weights: expected a network with published weights"
    ):
        network_of(weights="imagenet")


def test_weights_are_downloaded_before_images_are_read(tmp_path, monkeypatch):
    def fetch(*_):
        raise FileNotFoundError("could not download it")

    monkeypatch.setattr(hub, "fetch", fetch)
    monkeypatch.setattr(
        classification, "load_data", lambda *_: pytest.fail("the images came first")
    )
    model = {"name": "lambda_resnet26t", "weights": "imagenet"}
    message = r"model\.weights: could not download it\. Save .*--model\.weights FILE .*or None"
    with pytest.raises(ValueError, match=message):
        classification.train(TrainConfig(model=model, output_dir=tmp_path / "run"))
    assert list(tmp_path.iterdir()) == []


NAMES = ("a", "b", "c")


def test_no_teacher():
    assert load_teacher(DistillationConfig(), NAMES, 16) is None


def test_network_of_the_zoo_answers_with_logits(tmp_path):
    model = create_model("lambda_resnet14", classes=3, input_shape=(16, 16, 3))
    networks.randomize(model)
    model.save_weights(tmp_path / "w.weights.h5")
    settings = {"model": "lambda_resnet14", "weights": str(tmp_path / "w.weights.h5")}
    teacher = load_teacher(DistillationConfig(**settings), NAMES, 16)
    images = networks.images(2, 16, 16, 3)
    logits = networks.predict(teacher, images)
    answers = np.asarray(keras.ops.convert_to_numpy(keras.ops.softmax(logits)))
    np.testing.assert_allclose(answers, networks.predict(model, images), atol=1e-5)
    assert abs(logits.sum(-1) - 1).min() > 1e-3
    with pytest.raises(ValueError, match=r"^distillation: "):
        load_teacher(DistillationConfig(**settings), (*NAMES, "d"), 16)
    with pytest.raises(ValueError, match=r"^distillation: .*dropout_rate"):
        load_teacher(DistillationConfig(**settings, overrides={"dropout_rat": 1}), NAMES, 16)


def test_run_of_the_same_classes_and_pixels(run, tmp_path):
    digits = tuple("0123456789")
    config = DistillationConfig(run=run, temperature=4)
    assert load_teacher(config, digits, 16).output_shape == (None, 10)
    with pytest.raises(ValueError, match=r"distillation: expected a teacher of the 10 classes"):
        load_teacher(config, (*digits[:9], "nine"), 16)
    with pytest.raises(ValueError, match=r"images of 32 pixels.*Received: 16 pixels"):
        load_teacher(config, digits, 32)
    with pytest.raises(ValueError, match=r"distillation: run: expected the folder of a finished"):
        load_teacher(DistillationConfig(run=tmp_path), digits, 16)
