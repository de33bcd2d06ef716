"""Networks as backbones: their feature maps by name."""

from collections.abc import Sequence

import keras

from lambda_keras.layers.arguments import check, check_functional
from lambda_keras.models.specs import STAGES


def feature_extractor(model: keras.Model, endpoints: Sequence[str] = STAGES) -> keras.Model:
    """Builds a model of the same layers and weights that returns feature maps by name.

    Args:
        model: A network of this package, with or without classifier.
        endpoints: Names of layers. Defaults to `("c2", "c3", "c4", "c5")`, the last activations at
            strides 4, 8, 16 and 32 (1, 2, 4 and 8 for `LambdaResNet14`).

    Returns:
        A functional `keras.Model` from images to a dict of feature maps
        `(batch, height / stride, width / stride, channels)`.

    Raises:
        ValueError: If it is no functional model, or has no layer of such a name.

    Example:
    >>> from lambda_keras.applications import LambdaResNet50, feature_extractor
    >>> backbone = LambdaResNet50(include_top=False, input_shape=(None, None, 3))
    >>> {name: feature.shape[-1] for name, feature in feature_extractor(backbone).output.items()}
    {'c2': 256, 'c3': 512, 'c4': 1024, 'c5': 2048}
    """
    check_functional(model)
    names = [layer.name for layer in model.layers]
    are_names = isinstance(endpoints, (tuple, list)) and all(name in names for name in endpoints)
    expected = f"names of layers of {model.name!r}, such as {STAGES}"
    check(are_names and endpoints, expected, endpoints=endpoints)
    outputs = {name: model.get_layer(name).output for name in endpoints}
    inputs = model.inputs[0] if len(model.inputs) == 1 else model.inputs
    return keras.Model(inputs, outputs, name=f"{model.name}_features")
