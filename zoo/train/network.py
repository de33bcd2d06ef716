"""The network to train: settings of the recipe, initial weights, and teacher."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import keras

from lambda_keras.weights import load_weights
from lambda_keras.weights.files import find_weights, load_any_classes
from lambda_keras.weights.fit import CLASSIFIER, take_layers
from zoo.config import DistillationConfig, ModelConfig
from zoo.inference.source.kinds import choose
from zoo.registry import create_model
from zoo.variables import set_batch_norm

# Names of layers that begin a block: c4_block2_1, block12_expand.
BLOCK = re.compile(r"(c\d_)?block\d+(?=_|$)")


@contextmanager
def naming(setting: str) -> Iterator[None]:
    """Puts the name of a setting before errors in the `with` block."""
    try:
        yield
    except (ValueError, FileNotFoundError) as error:
        raise ValueError(f"{setting}: {error}") from None


def create_network(config: ModelConfig, classes: int) -> Any:
    """Creates the network of the settings from the registry."""
    shape = (config.size, config.size, 3)
    return create_model(config.name, classes=classes, input_shape=shape, **config.overrides)


def check_weights(config: ModelConfig) -> None:
    """Finds or downloads the weights that training starts from, before any image is read."""
    if config.weights is not None:
        with naming("model.weights"):
            find_weights(config.weights, config.weights_model or config.name)


def prepare(network: Any, config: ModelConfig) -> None:
    """Loads initial weights, sets batch normalization, and freezes layers."""
    if config.weights_model is not None:
        _warm_start(network, config, config.weights_model)
    elif config.weights is not None:
        with naming("model.weights"):
            loaded = load_any_classes(network, config.weights, config.name)
        if loaded is not network:
            print(f"the classifier starts from random weights: {config.weights} has other classes")
    set_batch_norm(network, config.batch_norm_momentum, config.synchronized_batch_norm)
    if config.freeze_backbone:
        for layer in network.layers:
            layer.trainable = layer.name == CLASSIFIER
    if config.freeze_up_to is not None:
        names = [layer.name for layer in network.layers]
        if config.freeze_up_to == "stem":  # it ends where the first block begins
            end = next(i for i, name in enumerate(names) if BLOCK.match(name))
        else:
            end = names.index(config.freeze_up_to) + 1
        for layer in network.layers[:end]:
            layer.trainable = False


class Logits(keras.layers.Layer):
    """The last layer of a classifier without its activation; the variables are the same."""

    def __init__(self, classifier: Any) -> None:
        super().__init__(name="logits", dtype=classifier.dtype_policy)
        self.classifier = classifier
        self.built = True

    def call(self, x: Any) -> Any:  # (b, c)
        logits = keras.ops.matmul(x, self.classifier.kernel)
        bias = self.classifier.bias
        return logits if bias is None else keras.ops.add(logits, bias)  # (b, n)


def with_logits(network: Any) -> keras.Model:
    """Returns a network of the same layers and variables that outputs logits."""
    return replace_layers(network, {CLASSIFIER: Logits})


def replace_layers(network: Any, kinds: Mapping[str, Callable[[Any], Any]]) -> Any:
    """Returns a network of the same layers, some replaced: `kinds` are functions by layer name."""
    return keras.models.clone_model(
        network, clone_function=lambda layer: kinds.get(layer.name, lambda same: same)(layer)
    )


def _warm_start(network: Any, config: ModelConfig, name: str) -> None:
    """Takes the weights of layers in common with another network; prints the remaining layers."""
    shape = (config.size, config.size, 3)
    source: Any = create_model(
        name, include_top=False, input_shape=shape, **config.weights_overrides
    )
    with naming("model.weights"):
        load_weights(source, str(config.weights), name)
    others = take_layers(network, source)
    missing = sum(layer.count_params() for layer in others)
    share = 1 - missing / network.count_params()
    if share == 0:
        raise ValueError(
            f"model.weights_model: expected a network with layers in common with {config.name}. "
            f"Received: {name}"
        )
    print(
        f"warm start from {config.weights} of {name}: {share:.1%} of the parameters; random: "
        f"{', '.join(layer.name for layer in others)}"
    )


def load_teacher(
    config: DistillationConfig,
    class_names: Sequence[str],
    image_size: int,
    choose: Callable[[Any], Any] = choose,
) -> Any | None:
    """Returns the teacher that the settings name, with logits as outputs; None if they name none.

    It has to have the classes of the data, and take images of the same size, in pixels.
    """
    if config.run is None and config.model is None:
        return None
    with naming("distillation"):
        classifier = choose(config).for_data(class_names, image_size).load()
        teacher, received = classifier.model, list(classifier.class_names)
        if received != list(class_names):
            raise ValueError(
                f"expected a teacher of the {len(class_names)} classes of the data "
                f"({', '.join(class_names[:3])}, ...). Received: {len(received)} classes "
                f"({', '.join(received[:3])}, ...)"
            )
        if teacher.input_shape[1:3] not in ((image_size, image_size), (None, None)):
            raise ValueError(
                f"expected a teacher of images of {image_size} pixels, as model.image_size has "
                f"it. Received: {teacher.input_shape[1]} pixels"
            )
    return with_logits(teacher)
