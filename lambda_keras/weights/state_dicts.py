"""Weights of other implementations: their names and layouts -> the variables of a model.

A naming scheme is a `StateDictScheme` and a column of `modules.csv`; the keys of a
checkpoint tell its scheme.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import keras
import numpy as np

from lambda_keras.layers import GlobalAttention, HaloAttention, LambdaLayer, SqueezeExcitation
from lambda_keras.weights.fit import CLASSIFIER, Tensor, assign, has_classifier, reordered, same

Array = np.ndarray

KERAS_2 = "tf_keras' ResNet-RS"
# A row for each layer of a model here, without the name of its block; a column for each library.
# "2_mixer_bn" is the normalization after a lambda or attention layer.
with Path(__file__).with_name("modules.csv").open(encoding="utf-8", newline="") as _file:
    _MODULES = list(csv.DictReader(_file))


@dataclass(frozen=True)
class StateDictScheme:
    """Names that a library gives to the modules of its residual networks."""

    library: str  # whose names they are
    marker: str  # first part of keys that only its checkpoints have
    block: str  # name of a block, counted from 0, of a stage
    first_stage: int  # number of the stage c2
    # Convolutions to queries, keys and values, and the 3-d one of position lambdas. `value_axis`
    # is its axis over the value depth; the others run over positions.
    projections: str = ""
    position_conv: str = ""
    value_axis: int = 0

    @cached_property
    def modules(self) -> dict[str, str]:
        """Names of the library's modules by the layers of a model here."""
        return {row["layer"]: row[self.library] for row in _MODULES if row[self.library]}


_RESNET = "layer{stage}.{block}."
SCHEMES = (
    StateDictScheme("timm", "stages.", "stages.{stage}.{block}.", 0, "qkv", "conv_lambda", 2),
    StateDictScheme("timm's ResNet-RS", "maxpool.", _RESNET, 1),
    StateDictScheme(KERAS_2, "BlockGroup2_", "BlockGroup{stage}__block_{block}_", 2),
    StateDictScheme(
        "torchvision or lambda.pytorch", "layer1.", _RESNET, 1, "conv_qkv", "lambda_conv", 0
    ),
)

_BLOCK_LAYER = re.compile(r"c(\d)_block(\d+)_(\w+)")


def assign_state_dict(model: keras.Model, state: Mapping[str, Array], source: str) -> None:
    """Assigns a checkpoint of one of `SCHEMES` to a model, or refuses it as `assign` does.

    A model without classifier ignores the classifier of a checkpoint. All names may begin with
    `"module."`.
    """
    if state and all(key.startswith("module.") for key in state):
        # torch.nn.DataParallel
        state = {key.removeprefix("module."): array for key, array in state.items()}
    state = {key: array for key, array in state.items() if not key.endswith("num_batches_tracked")}
    names = find_scheme(state)
    if names is None:
        raise ValueError(
            f"expected a checkpoint of {', '.join(names.library for names in SCHEMES)}. "
            f"Received: {source!r} with the names {sorted(state)[:3]}"
        )
    tensors = expected_tensors(model, names)
    assign(model, tensors, state, source, head=names.modules[CLASSIFIER])


def assign_in_order(model: keras.Model, arrays: Mapping[str, Array], source: str) -> None:
    """Assigns arrays to the weights of a model one after the other, or refuses them.

    Keras reads the weights of its MobileNetV2 in this way, because names in the files differ from
    the layers'. A model without classifier ignores the weights of one.
    """
    variables = [weight for layer in model.layers for weight in layer.weights]
    pairs = list(arrays.items())
    if not has_classifier(model) and len(pairs) == len(variables) + 2:  # kernel and bias
        pairs = pairs[:-2]
    if len(pairs) != len(variables):
        raise ValueError(
            f"the weights in {source!r} do not fit the model {model.name!r}: expected "
            f"{len(variables)} tensors. Received: {len(pairs)}"
        )
    tensors = map(same, (name for name, _ in pairs), variables)
    assign(model, tensors, dict(pairs), source)


def find_scheme(keys: Iterable[str]) -> StateDictScheme | None:
    """Finds the one of `SCHEMES` that keys follow, `None` if there is none."""
    for names in SCHEMES:
        if any(key.startswith(names.marker) for key in keys):
            return names
    return None


def expected_tensors(model: keras.Model, names: StateDictScheme) -> Iterator[Tensor]:
    """Yields the tensors that a checkpoint of the same network holds, if the library has it."""
    layer_names = {layer.name for layer in model.layers}
    tensors_of = _keras_2 if names.library == KERAS_2 else _pytorch
    assigned = set()
    for layer in model.layers:
        module = _module(layer.name, layer_names, names) if layer.weights else None
        for tensor in () if module is None else tensors_of(layer, module, names):
            assigned.update(id(variable) for variable in tensor.variables)
            yield tensor
    without = [weight.path for weight in model.weights if id(weight) not in assigned]
    if without:
        raise ValueError(
            f"expected a model with the layers of a network of {names.library}. Received: "
            f"{model.name!r}, of which these have no counterpart there: {', '.join(without[:3])}"
        )


def _module(layer: str, layers: set[str], names: StateDictScheme) -> str | None:
    """Name of the module that is the counterpart of a layer, `None` if there is none."""
    match = _BLOCK_LAYER.fullmatch(layer)
    if match is None:
        return names.modules.get(layer)
    stage, block, part = int(match[1]) - 2, int(match[2]) - 1, match[3]
    if part == "2_bn" and layer.removesuffix("bn") + "conv" not in layers:
        part = "2_mixer_bn"
    module = names.modules.get(part)
    return module and names.block.format(stage=stage + names.first_stage, block=block) + module


def _keras_2(layer: keras.Layer, module: str, _: StateDictScheme) -> Iterator[Tensor]:
    """Weights of a layer in Keras 2: the same, but excitations are 1x1 convolutions."""
    if not isinstance(layer, SqueezeExcitation):
        for variable in layer.weights:
            yield same(f"{module}/{variable.name}", variable)
        return
    for dense, name in ((layer.squeeze, "reduce"), (layer.excite, "expand")):
        shape = (1, 1, *dense.kernel.shape)
        yield reordered(f"{module}{name}/kernel", dense.kernel, 0, 1, shape=shape)
        yield same(f"{module}{name}/bias", dense.bias)


def _pytorch(layer: keras.Layer, module: str, names: StateDictScheme) -> Iterator[Tensor]:
    if isinstance(layer, keras.layers.Conv2D):
        yield reordered(f"{module}.weight", layer.kernel, 3, 2, 0, 1)
    elif isinstance(layer, keras.layers.Dense):
        yield reordered(f"{module}.weight", layer.kernel, 1, 0)
        yield same(f"{module}.bias", layer.bias)
    elif isinstance(layer, keras.layers.BatchNormalization):
        yield from _batch_norm(layer, module)
    elif isinstance(layer, SqueezeExcitation):
        for dense, name in ((layer.squeeze, "fc1"), (layer.excite, "fc2")):
            yield _projections([dense.kernel], f"{module}.{name}.weight")
            yield same(f"{module}.{name}.bias", dense.bias)
    elif isinstance(layer, LambdaLayer) and layer.intra_depth == 1 and layer.use_content:
        yield from _lambda_layer(layer, module, names)
    elif isinstance(layer, GlobalAttention):
        yield from _relative_attention(layer, module, names)


def _projections(kernels: Sequence[Any], key: str, heads: int = 1) -> Tensor:
    """One 1x1 convolution of kernels side by side, either whole or head by head."""
    depth = kernels[0].shape[0]
    widths = [kernel.shape[1] // heads for kernel in kernels]

    def split(array: Array) -> Sequence[Array]:
        per_head = array[:, :, 0, 0].T.reshape(depth, heads, -1)
        parts = np.split(per_head, np.cumsum(widths)[:-1], axis=2)
        return [part.reshape(depth, -1) for part in parts]

    return Tensor(key, (sum(widths) * heads, depth, 1, 1), kernels, split)


def _relative_attention(layer: Any, module: str, names: StateDictScheme) -> Iterator[Tensor]:
    """Global or halo attention of timm, which has no multi-query and no output projection."""
    query, *others = kernels = [layer.query_kernel, layer.key_kernel, layer.value_kernel]
    if isinstance(layer, HaloAttention):
        yield _projections([query], f"{module}.q.weight")
        yield _projections(others, f"{module}.kv.weight", layer.groups)
    else:
        yield _projections(kernels, f"{module}.{names.projections}.weight")
    yield same(f"{module}.pos_embed.height_rel", layer.row_embeddings)
    yield same(f"{module}.pos_embed.width_rel", layer.column_embeddings)


def _lambda_layer(layer: Any, module: str, names: StateDictScheme) -> Iterator[Tensor]:
    kernels = [layer.query_kernel, layer.key_kernel, layer.value_kernel]
    yield _projections(kernels, f"{module}.{names.projections}.weight")
    for norm, name in ((layer.query_batch_norm, "norm_q"), (layer.value_batch_norm, "norm_v")):
        if norm is not None:
            yield from _batch_norm(norm, f"{module}.{name}")
    embeddings = layer.position_embeddings
    if embeddings is not None:
        height, width, _, depth = embeddings.shape
        if layer.scope is None:
            shape = (height, width, depth)
            yield reordered(f"{module}.pos_emb", embeddings, 0, 1, 2, 3, shape=shape)
        else:
            sizes = [height, width]
            sizes.insert(names.value_axis, 1)
            key, shape = f"{module}.{names.position_conv}.weight", (depth, 1, *sizes)
            yield reordered(key, embeddings, 3, 2, 0, 1, shape=shape)
    if layer.position_bias is not None:
        yield same(f"{module}.{names.position_conv}.bias", layer.position_bias)


def _batch_norm(layer: Any, module: str) -> Iterator[Tensor]:
    yield same(f"{module}.weight", layer.gamma)
    yield same(f"{module}.bias", layer.beta)
    yield same(f"{module}.running_mean", layer.moving_mean)
    yield same(f"{module}.running_var", layer.moving_variance)
