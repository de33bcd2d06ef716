"""Changes of a network by its recipe before training."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
from support import hub, networks

from lambda_keras.layers import AxialAttention
from zoo.config import DistillationConfig, ModelConfig, TrainConfig
from zoo.registry import create_model
from zoo.train.classification import train
from zoo.train.network import create_network, load_teacher, prepare
from zoo.train.optimizer import add_weight_decay


def network_of(classes=3, **settings):
    config = ModelConfig(image_size=16, **settings)
    network = create_network(config, classes)
    prepare(network, config)
    return network


def saved(tmp_path, **settings):
    network = network_of(**settings)
    networks.randomize(network)
    network.save_weights(tmp_path / "w.weights.h5")
    return network, str(tmp_path / "w.weights.h5")


def batch_norms(network):
    layers = network._flatten_layers()
    return [layer for layer in layers if isinstance(layer, keras.layers.BatchNormalization)]


def test_overrides_reach_the_constructor_and_every_batch_normalization():
    """Layers within axial attention are no layers of the network itself."""
    overrides = {"mixer": "axial", "num_heads": "4", "dropout_rate": 0.3}
    settings = {"batch_norm_momentum": 0.95, "synchronized_batch_norm": True}
    network = network_of(overrides=overrides, **settings)

    def own(kind):
        return [layer for layer in network.layers if isinstance(layer, kind)]

    assert [layer.rate for layer in own(keras.layers.Dropout)] == [0.3]
    assert [layer.num_heads for layer in own(AxialAttention)] == [4] * 2
    norms = batch_norms(network)
    assert len(norms) > len(own(keras.layers.BatchNormalization))
    assert {(layer.momentum, layer.synchronized) for layer in norms} == {(0.95, True)}


def test_momentum_of_runs_is_not_that_of_constructors():
    """Recipes without one keep the momentum that runs have always had."""
    network = networks.tiny_model()
    for config, momentum in ((ModelConfig(batch_norm_momentum=None), 0.9), (ModelConfig(), 0.99)):
        prepare(network, config)
        assert {layer.momentum for layer in batch_norms(network)} == {momentum}


@pytest.mark.parametrize(
    ("settings", "first"),
    [
        ({"freeze_up_to": "stem"}, "c2_block1"),
        ({"freeze_up_to": "c3"}, "c4_block1"),
        ({"freeze_up_to": "c5"}, "predictions"),
        ({"freeze_backbone": True}, "predictions"),
    ],
)
def test_frozen_layers(settings, first):
    """Neither weights nor batch statistics of what is frozen change."""
    network = networks.tiny_model()
    prepare(network, ModelConfig(**settings))
    add_weight_decay(network, 0.1)
    trained = [layer.name for layer in network.layers if layer.trainable and layer.weights]
    assert trained[0].startswith(first)
    if (stage := settings.get("freeze_up_to", "stem")) != "stem":
        assert not network.get_layer(stage).trainable
    if first == "predictions":
        assert len(network.losses) == 1
    frozen = [layer for layer in network.layers if not layer.trainable]
    assert frozen[0] is network.layers[0]
    assert not [variable for layer in frozen for variable in layer.trainable_variables]
    statistics = networks.values(v for layer in frozen for v in layer.weights)
    network(networks.images(2, 16, 16, 3), training=True)
    now = networks.values(v for layer in frozen for v in layer.weights)
    np.testing.assert_equal(statistics, now)


@pytest.mark.parametrize("source", [3, 7, "fashion_mnist"])
def test_weights_of_other_classes_are_those_of_the_backbone(tmp_path, capsys, source):
    """Of files of so many classes, and packaged ones."""
    expected, weights = create_model("lambda_resnet14", weights="fashion_mnist"), source
    if source != "fashion_mnist":
        expected, weights = saved(tmp_path, classes=source)
    received = network_of(weights=weights)
    said = f"the classifier starts from random weights: {weights} has other classes"
    assert (said in capsys.readouterr().out) is (source != 3)
    assert received.output_shape == (None, 3)
    for layer in expected.layers if source == 3 else expected.layers[:-1]:
        np.testing.assert_equal(layer.get_weights(), received.get_layer(layer.name).get_weights())


def test_warm_start_takes_the_layers_in_common(tmp_path, capsys):
    convolutions = {"placement": "CCCC"}
    source, weights = saved(tmp_path, overrides=convolutions)
    keras.utils.set_random_seed(1)
    fresh = network_of()
    keras.utils.set_random_seed(1)
    arguments = {"weights_model": "lambda_resnet14", "weights_overrides": convolutions}
    network = network_of(weights=weights, **arguments)
    random = ["c4_block1_2_lambda", "c5_block1_2_lambda", "predictions"]
    assert f"of the parameters; random: {', '.join(random)}\n" in capsys.readouterr().out
    for layer in network.layers:
        model = fresh if layer.name in random else source
        np.testing.assert_equal(model.get_layer(layer.name).get_weights(), layer.get_weights())


@pytest.mark.parametrize(
    ("name", "model", "message"),
    [
        ("mobilenet_v2", "lambda_resnet14", r"weights_model: .*common with mobilenet_v2"),
        ("resnet50_pytorch", None, r"weights: .*do not fit the model"),
        ("lambda_resnet14", "", r"weights: expected a network with published weights"),
    ],
)
@networks.undrawn()
def test_weights_of_another_network_are_refused(tmp_path, name, model, message):
    weights = "imagenet" if model == "" else saved(tmp_path)[1]
    config = ModelConfig(name=name, image_size=32, weights=weights)
    config = config.model_copy(update={"weights_model": model or None})
    with pytest.raises(ValueError, match=rf"model\.{message}"):
        prepare(create_network(config, 3), config)


def test_weights_are_downloaded_before_images_are_read(tmp_path):
    """Neither the weights nor the images are there."""
    model = {"name": "lambda_resnet26t", "weights": "imagenet"}
    data = {"source": "image_folder", "dir": "nowhere"}
    message = r"model\.weights: could not download .*\. Save .*--model\.weights FILE .*or None"
    config = TrainConfig(model=model, data=data, output_dir=tmp_path / "run")
    with hub.served(str(tmp_path / "cache")) as served:
        served.close()
        with pytest.raises(ValueError, match=message):
            train(config)
    assert not config.output_dir.exists()


NAMES = ("a", "b", "c")


def test_network_of_the_zoo_answers_with_logits(tmp_path):
    assert load_teacher(DistillationConfig(), NAMES, 16) is None
    model, weights = saved(tmp_path)
    settings = {"model": "lambda_resnet14", "weights": weights}
    teacher = load_teacher(DistillationConfig(**settings), NAMES, 16)
    images = networks.images(2, 16, 16, 3)
    logits = networks.predict(teacher, images)
    answers = keras.ops.convert_to_numpy(keras.ops.softmax(logits))
    np.testing.assert_allclose(answers, networks.predict(model, images), atol=1e-5)
    assert abs(logits.sum(-1) - 1).min() > 1e-3
    wrong = DistillationConfig(**settings, overrides={"dropout_rat": 1})
    for config, message in (
        (wrong, "dropout_rate"),
        (DistillationConfig(run=tmp_path), "finished"),
    ):
        with pytest.raises(ValueError, match=rf"^distillation: .*{message}"):
            load_teacher(config, NAMES, 16)


@pytest.mark.parametrize(
    ("names", "size", "message"),
    [
        (NAMES, 8, None),
        (("a", "b", "d"), 8, r"distillation: expected a teacher of the 3 classes of the data \(a,"),
        (NAMES[::-1], 8, r"of the data \(c, b, a, .*Received: 3 classes \(a, b, c"),
        (NAMES, 9, "a teacher of images of 9 pixels, as model.image_size has it. Received: 8"),
    ],
)
def test_teacher_has_the_classes_and_pixels_of_the_data(names, size, message):
    loaded = SimpleNamespace(model=networks.linear_model(classes=3), class_names=NAMES)
    source = SimpleNamespace(load=lambda: loaded)
    source.for_data = lambda *data: source if data == (names, size) else None
    config = DistillationConfig(run="run")
    if message is None:
        teacher = load_teacher(config, names, size, lambda _: source)
        assert teacher.weights == loaded.model.weights
        assert teacher.layers[-1].name == "logits"
        return
    with pytest.raises(ValueError, match=message):
        load_teacher(config, names, size, lambda _: source)
