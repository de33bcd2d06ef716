"""Models derived from networks: feature extractors, and inference without batch normalization."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import layers

from lambda_keras.applications.flops import calls
from lambda_keras.layers import BatchNormalization, LambdaLayer
from lambda_keras.layers.arguments import check, check_functional
from lambda_keras.models.specs import STAGES

# Subclasses may compute something else, so only these very types are folded.
_LINEAR = (layers.Conv2D, layers.DepthwiseConv2D, layers.Dense)
_NORMS = (layers.BatchNormalization, BatchNormalization)
FLOATS = {"float16", "bfloat16", "float32", "float64"}


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
        ValueError: If the model is not functional, or has no layer of such a name.

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


def fold_batch_normalization(model: keras.Model, dtype: str | None = None) -> keras.Model:
    """Copies a network for inference and folds batch normalizations into the layers before them.

    In inference a batch normalization multiplies and adds constants. The kernel of the convolution
    or dense layer before it absorbs the former, the bias the latter; so do the projections to
    queries and values in a lambda layer. Normalizations after a lambda layer, whose heads share
    values, or after a pooling stay, and so do layers with `training=True` fixed in the graph.
    Subclasses of layers of Keras or this package, quantized layers and those with LoRA stay as they
    are; models within the model are folded, too. Layers keep their names: folded normalizations
    become identities.

    In float32 outputs differ by rounding, by less than 1e-5 of the largest one in most networks and
    up to 3e-5 in deep ones; in bfloat16 and float16, where the folded kernels are rounded, as much
    as outputs of these precisions differ from float32.

    With `dtype="mixed_bfloat16"` the copy computes in bfloat16, which takes half of the time on
    processors with instructions for it (`python -m zoo.benchmark models`).

    Args:
        model: A functional model with layers of Keras and of this package, such as any network of
            `lambda_keras.applications`, with or without classifier; it is left as it is.
        dtype: Name of a Keras dtype policy for the copy, such as `"mixed_bfloat16"`; output
            layers of the model keep theirs. Defaults to the policies of `model`.

    Returns:
        A functional `keras.Model` with inputs, outputs and layer names of `model`.

    Raises:
        ValueError: If the model is not functional, or has a `call` of its own, or `dtype` is not a
            policy of floats.

    Example:
    >>> import numpy as np
    >>> from lambda_keras.applications import LambdaResNet14, fold_batch_normalization
    >>> model = LambdaResNet14(classes=10)
    >>> folded = fold_batch_normalization(model)
    >>> images = np.ones((1, 32, 32, 3), "float32")
    >>> bool(np.allclose(folded(images), model(images), atol=1e-5))
    True
    """
    check_functional(model)
    expected = "None, or the name of a Keras dtype policy of floats, such as 'mixed_bfloat16'"
    check(dtype is None or _is_float_policy(dtype), expected, dtype=dtype)
    ends = model.inputs[0], model.outputs[0]
    if not isinstance(model, keras.Sequential):
        ends = model.input, model.output
    copy: Any = keras.Model(*ends, name=model.name)  # not compiled
    usual = keras.Sequential.call, type(copy).call
    expected = "a functional keras.Model without a call of its own"
    check(type(model).call in usual, expected, model=type(model))
    model = copy
    norms = _followed_by_norm(model)
    lambdas = {layer.name for layer in model.layers if type(layer) is LambdaLayer}
    trained = {layer.name for layer, node in calls(model) if node.arguments.kwargs.get("training")}
    lambdas -= trained
    inner = {layer.name for layer in model.layers if getattr(type(layer), "call", None) in usual}
    inner -= trained
    folded_norms = {norm.name for norm in norms.values()}
    last = {_source(tensor).name for tensor in model.outputs}

    def clone(layer: Any) -> Any:
        changed = dtype is not None and layer.name not in last and isinstance(layer, layers.Layer)
        if layer.name in folded_norms:
            policy = dtype if changed else layer.dtype_policy.name
            return layers.Identity(name=layer.name, dtype=policy)
        if layer.name in inner:
            return fold_batch_normalization(layer, dtype if changed else None)
        # Drawing random numbers would take most of the time.
        config = {
            key: "zeros" if key.endswith("_initializer") else value
            for key, value in layer.get_config().items()
        }
        if changed:
            config["dtype"] = dtype
        if layer.name in norms:
            config["use_bias"] = True
        if layer.name in lambdas:
            # Its projections have a bias in place of normalizations.
            with_softmax = layer.query_normalization in ("softmax", "batch_softmax")
            config["query_normalization"] = "softmax" if with_softmax else None
            config |= {"use_projection_bias": True, "value_normalization": None}
        return type(layer).from_config(config)

    def call(layer: Any, *inputs: Any, **arguments: Any) -> Any:
        if layer.name in folded_norms:  # an identity takes no mask or training
            return layer(inputs[0] if inputs else arguments["inputs"])
        return layer(*inputs, **arguments)

    folded: Any = keras.models.clone_model(model, clone_function=clone, call_function=call)
    for layer in folded.layers:
        if not layer.weights or layer.name in inner:
            continue
        source: Any = model.get_layer(layer.name)
        if layer.name in norms:
            kernel, bias = _folded(source.kernel, source.bias, norms[layer.name])
            layer.kernel.assign(kernel)
            layer.bias.assign(bias)
        elif layer.name in lambdas:
            _assign_lambda_layer(layer, source)
        else:
            layer.set_weights(source.get_weights())
            if isinstance(layer, layers.Normalization):
                layer.finalize_state()  # its constants come from its weights
    return folded


def _is_float_policy(dtype: Any) -> bool:
    try:
        policy = keras.dtype_policies.get(dtype)
    except Exception:  # Keras raises many kinds of errors
        return False
    dtypes = policy.compute_dtype, policy.variable_dtype
    return type(policy) is keras.DTypePolicy and {*dtypes} <= FLOATS


def _followed_by_norm(model: keras.Model) -> dict[str, Any]:
    """Batch normalizations by the names of the linear layers whose outputs they alone see."""
    nodes = list(calls(model))
    called = Counter(operation.name for operation, _ in nodes)
    tensors = [tensor for _, node in nodes for tensor in node.input_tensors]
    seen = Counter(_source(tensor).name for tensor in (*tensors, *model.outputs))
    norms = {}
    for norm, node in nodes:
        if type(norm) not in _NORMS or called[norm.name] != 1 or len(node.input_tensors) != 1:
            continue
        before = _source(node.input_tensors[0])
        if (
            type(before) in _LINEAR
            and not node.arguments.kwargs.get("training")
            and before.activation is keras.activations.linear
            and seen[before.name] == called[before.name] == 1
            and norm.axis in (-1, norm.input_spec.ndim - 1)
            and getattr(before, "data_format", "channels_last") == "channels_last"
            # Quantization and LoRA add weights.
            and {weight.name for weight in before.weights} <= {"kernel", "bias"}
        ):
            norms[before.name] = norm
    return norms


def _source(tensor: Any) -> Any:
    """The layer or operation that a tensor is an output of."""
    return tensor._keras_history.operation


def _folded(kernel: Any, bias: Any, norm: Any) -> tuple[np.ndarray, np.ndarray]:
    """Kernel and bias of a linear layer joined with the batch normalization after it."""

    def array(variable: Any) -> np.ndarray:
        return keras.ops.convert_to_numpy(variable).astype("float64")

    scale = 1 / np.sqrt(array(norm.moving_variance) + norm.epsilon)
    if norm.scale:
        scale = scale * array(norm.gamma)
    shift = -array(norm.moving_mean) * scale
    if norm.center:
        shift = shift + array(norm.beta)
    if bias is not None:
        shift = shift + array(bias) * scale
    kernel = array(kernel)
    # The channels of a depthwise convolution are its last two axes.
    channels = kernel.shape[-2:] if kernel.shape[-1] != len(scale) else kernel.shape[-1:]
    return kernel * scale.reshape(channels), shift


def _assign_lambda_layer(layer: LambdaLayer, source: LambdaLayer) -> None:
    folded = {}
    for name in ("query", "value"):
        kernel, bias = getattr(source, f"{name}_kernel"), getattr(source, f"{name}_bias")
        norm = getattr(source, f"{name}_batch_norm")
        if norm is not None:
            kernel, bias = _folded(kernel, bias, norm)
        folded |= {f"{name}_kernel": kernel, f"{name}_bias": bias}
    for variable in layer.weights:
        value = folded.get(variable.name, getattr(source, variable.name))
        if value is not None:
            variable.assign(value)
