"""Changes of a network by its recipe before training."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
from support import networks

from lambda_keras.layers import AxialAttention
from lambda_keras.weights import hub
from zoo.config import DistillationConfig, ModelConfig, TrainConfig
from zoo.registry import create_model
from zoo.train import classification
from zoo.train import network as network_module
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


def batch_norms(network):
    layers = network._flatten_layers()
    return [layer for layer in layers if isinstance(layer, keras.layers.BatchNormalization)]


def momenta(network):
    return {layer.momentum for layer in batch_norms(network)}


def test_overrides_reach_the_constructor_and_every_batch_normalization():
    """Layers within axial attention are no layers of the network itself."""
    overrides = {"mixer": "axial", "num_heads": "4", "dropout_rate": 0.3}
    settings = {"batch_norm_momentum": 0.95, "synchronized_batch_norm": True}
    network = network_of(overrides=overrides, **settings)
    rates = [layer.rate for layer in network.layers if isinstance(layer, keras.layers.Dropout)]
    assert rates == [0.3]
    layers = [layer for layer in network.layers if isinstance(layer, AxialAttention)]
    assert [layer.num_heads for layer in layers] == [4] * 2
    norms = batch_norms(network)
    own = [layer for layer in network.layers if isinstance(layer, keras.layers.BatchNormalization)]
    assert len(norms) > len(own)
    assert momenta(network) == {0.95}
    assert {layer.synchronized for layer in norms} == {True}


def test_momentum_of_runs_is_not_that_of_constructors():
    """Recipes without one keep the momentum that runs have always had."""
    assert ModelConfig().batch_norm_momentum == 0.99
    network = networks.tiny_model()
    prepare(network, ModelConfig(batch_norm_momentum=None))
    assert momenta(network) == {0.9}
    prepare(network, ModelConfig())
    assert momenta(network) == {0.99}


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


@pytest.mark.parametrize("classes", [3, 7])
def test_weights_of_other_classes_are_those_of_the_backbone(tmp_path, capsys, classes):
    expected, weights = saved(tmp_path, classes=classes)
    received = network_of(weights=weights)
    said = "the classifier starts from random weights" in capsys.readouterr().out
    assert said is (classes == 7)
    assert received.output_shape == (None, 3)
    for layer in expected.layers if classes == 3 else expected.layers[:-1]:
        np.testing.assert_equal(layer.get_weights(), received.get_layer(layer.name).get_weights())


def test_packaged_weights_of_other_classes(capsys):
    network = network_of(weights="fashion_mnist")
    assert "random weights: fashion_mnist has other classes" in capsys.readouterr().out
    source = create_model("lambda_resnet14", weights="fashion_mnist", include_top=False)
    for layer in source.layers:
        np.testing.assert_equal(layer.get_weights(), network.get_layer(layer.name).get_weights())


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
        np.testing.assert_equal(model.get_layer(layer.name).get_weights(), layer.get_weights())


@pytest.mark.parametrize(
    ("name", "model", "message"),
    [
        ("mobilenet_v2", "lambda_resnet14", r"model\.weights_model: .*common with mobilenet_v2"),
        ("resnet50_pytorch", None, r"model\.weights: .*do not fit the model"),
    ],
)
@networks.undrawn()
def test_weights_of_another_network_are_refused(tmp_path, name, model, message):
    _, weights = saved(tmp_path)
    config = ModelConfig(name=name, image_size=32, weights=weights)
    config = config.model_copy(update={"weights_model": model})
    with pytest.raises(ValueError, match=message):
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
    with pytest.raises(ValueError, match=r"^distillation: .*dropout_rate"):
        load_teacher(DistillationConfig(**settings, overrides={"dropout_rat": 1}), NAMES, 16)


@pytest.mark.parametrize(
    ("names", "size", "message"),
    [
        (NAMES, 8, None),
        (
            ("a", "b", "d"),
            8,
            r"distillation: expected a teacher of the 3 classes of the data \(a, b",
        ),
        (NAMES[::-1], 8, r"of the data \(c, b, a, .*Received: 3 classes \(a, b, c"),
        (NAMES, 9, "a teacher of images of 9 pixels, as model.image_size has it. Received: 8"),
    ],
)
def test_teacher_has_the_classes_and_pixels_of_the_data(monkeypatch, names, size, message):
    loaded = SimpleNamespace(model=networks.linear_model(classes=3), class_names=NAMES)
    source = SimpleNamespace(load=lambda: loaded)
    source.for_data = lambda *data: source if data == (names, size) else None
    monkeypatch.setattr(network_module, "choose", lambda config: source)
    if message is None:
        teacher = load_teacher(DistillationConfig(run="run"), names, size)
        assert teacher.weights == loaded.model.weights
        assert teacher.layers[-1].name == "logits"
        return
    with pytest.raises(ValueError, match=message):
        load_teacher(DistillationConfig(run="run"), names, size)


def test_run_that_is_no_teacher(tmp_path):
    with pytest.raises(ValueError, match=r"distillation: run: expected the folder of a finished"):
        load_teacher(DistillationConfig(run=tmp_path), NAMES, 16)
