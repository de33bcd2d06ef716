"""The network that a run trains: built, set up for the recipe, and started from weights."""

import re
from typing import Any

import keras

from lambda_keras.weights import load_weights
from lambda_keras.weights.files import find_weights, load_any_classes
from lambda_keras.weights.fit import take_layers
from zoo.config import ModelConfig
from zoo.registry import CLASSIFIER, create_model, set_batch_norm

# Names of layers that begin a block: c4_block2_1, block12_expand.
BLOCK = re.compile(r"(c\d_)?block\d+(?=_|$)")


def create_network(config: ModelConfig, classes: int) -> Any:
    """Returns the network as the registry has it.

    Raises:
        ValueError: If an argument does not fit.
    """
    shape = (config.size, config.size, 3)
    return create_model(config.name, classes=classes, input_shape=shape, **config.overrides)


def check_weights(config: ModelConfig) -> None:
    """Finds or downloads the weights that training starts from, before any image is read.

    Raises:
        ValueError: If there are none.
    """
    if config.weights is not None:
        try:
            find_weights(config.weights, config.weights_model or config.name)
        except (ValueError, FileNotFoundError) as error:
            raise ValueError(f"model.weights: {error}") from None


def prepare(network: Any, config: ModelConfig) -> None:
    """Loads initial weights, sets batch normalization, and freezes layers.

    Raises:
        ValueError: If the weights do not fit.
    """
    if config.weights_model is not None:
        _warm_start(network, config, config.weights_model)
    elif config.weights is not None:
        _start_from(network, config)
    set_batch_norm(network, config.batch_norm_momentum, config.synchronized_batch_norm)
    if config.freeze_backbone:
        for layer in network.layers:
            layer.trainable = layer.name == CLASSIFIER
    if config.freeze_up_to is not None:
        for layer in _layers_up_to(network, config.freeze_up_to):
            layer.trainable = False


def give_logits(network: Any) -> None:
    """Removes the softmax of a classifier: losses, and distillation, take logits."""
    network.get_layer(CLASSIFIER).activation = keras.activations.linear


def _layers_up_to(network: Any, stage: str) -> list[Any]:
    """Returns the layers of the stem, or those from it to the end of a stage."""
    names = [layer.name for layer in network.layers]
    if stage == "stem":
        return network.layers[: next(i for i, name in enumerate(names) if BLOCK.match(name))]
    return network.layers[: names.index(stage) + 1]


def _start_from(network: Any, config: ModelConfig) -> None:
    """Loads weights of the same classes, or all but the classifier of others."""
    try:
        loaded = load_any_classes(network, str(config.weights), config.name)
    except (ValueError, FileNotFoundError) as error:
        raise ValueError(f"model.weights: {error}") from None
    if loaded is not network:
        print(f"the classifier starts from random weights: that of {config.weights} does not fit")


def _warm_start(network: Any, config: ModelConfig, name: str) -> None:
    """Takes layers in common with another network; prints which ones it has not."""
    shape = (config.size, config.size, 3)
    source: Any = create_model(
        name, include_top=False, input_shape=shape, **config.weights_overrides
    )
    try:
        load_weights(source, str(config.weights), name)
    except (ValueError, FileNotFoundError) as error:
        raise ValueError(f"model.weights: {error}") from None
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
