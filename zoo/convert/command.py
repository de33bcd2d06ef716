"""Converts published or PyTorch weights to a `.weights.h5` file: `python -m zoo.convert`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from lambda_keras.models.specs import CLASS_NAMES, Network
from zoo import model_card
from zoo.cli.settings import Settings
from zoo.errors import needs_extra, refusal, require
from zoo.fields import OutputFile, TypedValues, named
from zoo.files import atomic_write, keras_file, naming_full_disks
from zoo.registry import constructor_arguments, create_model, find_model
from zoo.variables import trainable_parameters

if TYPE_CHECKING:
    import numpy as np

SUFFIX = ".weights.h5"
USE = """```python
from lambda_keras.applications import {constructor}

model = {constructor}({call})
```"""


class ConvertConfig(Settings):
    """Converts weights to a .weights.h5 file, and writes a model card (.md) next to it.

    Sources: imagenet (published weights), hf://owner/repo (a repository of the Hugging Face hub),
    or a path: .safetensors, .weights.h5, or a checkpoint of PyTorch (.pth, .pt, .bin, .tar), for
    which PyTorch must be installed. Checkpoints of timm, torchvision and lambda.pytorch are
    recognized by the names in them. Code in a checkpoint is not run.

    Example: python -m zoo.convert --model lambda_resnet26t --weights imagenet
    --output lambda_resnet26t.weights.h5
    """

    model: str
    """Model, by its name: see python -m zoo.list."""
    weights: str
    """imagenet, hf://owner/repo[@revision], or a path."""
    output: Annotated[OutputFile, named(SUFFIX)] = Field(description=f"File to write, *{SUFFIX}.")
    overrides: TypedValues = Field(default={})
    """Other constructor arguments, e.g. --overrides classes=7"""
    overwrite: bool = False
    """Replace existing files."""


def run(config: ConvertConfig, create_model: Callable[..., Any] = create_model) -> None:
    """Writes the weights of a source, and a model card; both are whole or not there."""
    output = config.output
    card = output.with_name(output.name.removesuffix(SUFFIX) + ".md")
    for path in (output, card):
        expected = "expected an output that is not there yet, or --overwrite true"
        require(not path.exists() or config.overwrite, expected, path)
    row = find_model(config.model)
    from lambda_keras.weights.files import PYTORCH, find_weights, load_weights
    from lambda_keras.weights.state_dicts import assign_state_dict

    source = find_weights(config.weights, row.name)
    state = read_pytorch(source) if source.name.endswith(PYTORCH) else None
    classes = {"classes": len(CLASS_NAMES[config.weights])} if config.weights in CLASS_NAMES else {}
    overrides = classes | dict(config.overrides)
    model = create_model(row.name, **overrides)
    if state is None:
        load_weights(model, source, row.name)
    else:
        assign_state_dict(model, state, str(source))
    with atomic_write(output) as new_output, atomic_write(card) as new_card:
        with naming_full_disks(output):
            new_output.write_bytes(keras_file(model, output.name))
        shown = {**constructor_arguments(row.name, overrides), "weights": output.name}
        call = ", ".join(f"{key}={value!r}" for key, value in shown.items())
        fields = {
            "Trainable parameters": f"{trainable_parameters(model):,}",
            **card_fields(row, config.weights, source, new_output),
        }
        use = USE.format(constructor=row.constructor, call=call)
        model_card.write(new_card, row.name, fields, {"Use": use})
    print(f"wrote {output}\nwrote {card}")


def read_pytorch(path: Path) -> "dict[str, np.ndarray]":
    """Reads the tensors of a PyTorch checkpoint, under `"state_dict"` or at its top.

    It is a pickle, but only tensors and plain values are unpickled, so none of its code is run.
    """
    with needs_extra("convert"):
        import torch  # pyright: ignore[reportMissingImports]
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged pickles raise errors of all kinds
        from lambda_keras.weights.hub import why_pointer

        reason = why_pointer(path) or (str(error) or type(error).__name__).splitlines()[0]
        expected = "expected an intact PyTorch checkpoint of tensors and plain values, without code"
        raise refusal(expected, f"{str(path)!r} ({reason})") from error
    state = content.get("state_dict", content) if isinstance(content, dict) else None
    tensors: dict[str, Any] = {}
    if isinstance(state, dict):
        tensors = {str(key): value for key, value in state.items() if torch.is_tensor(value)}
    expected = "expected a checkpoint with tensors by name, under 'state_dict' or at its top"
    require(tensors, expected, repr(str(path)))
    for key, tensor in tensors.items():
        try:
            tensor = tensor.detach()
            tensors[key] = (tensor.float() if tensor.is_floating_point() else tensor).numpy()
        except (TypeError, RuntimeError) as error:  # of sparse, quantized and meta tensors
            expected = f"expected dense tensors in {str(path)!r}"
            raise refusal(expected, f"{key!r}, {tensor.layout} on {tensor.device}") from error
    return tensors


def card_fields(row: Network, weights: str, source: Path, output: Path) -> dict[str, str]:
    """Returns card fields about the weights and the images that they expect."""
    from lambda_keras.applications.preprocessing import preprocessing_of
    from lambda_keras.weights.hub import sha256

    by_repository = {f"hf://{entry.repository}": entry for entry in row.weights.values()}
    published = row.published(weights) or by_repository.get(weights.split("@")[0])
    if Path(weights).expanduser() in (source, source.parent):  # on this machine
        origin = f"`{source.name}`"
    elif published and (published.is_packaged or published.page == published.repository):
        origin = f"`{weights}`, {published.page}"
    else:  # a file of the hub: its folder in the cache has the name of the commit
        origin = f"`{weights}`, `{source.name}` of commit `{source.parent.name}`"
        if published:
            origin += f" of {published.page}"
    size = published.image_size if published else row.image_size
    view = preprocessing_of(row.name, size, weights)
    mean, std = (
        ", ".join(f"{number:.3f}" for number in values) for values in (view.mean, view.std)
    )
    return {
        "Source": origin,
        "SHA-256 of the source": f"`{sha256(source)}`",
        f"SHA-256 of `{output.name}`": f"`{sha256(output)}`",
        "License": published.license if published else "that of the source",
        "Images": f"RGB, {size} x {size} pixels",
        "Preprocessing": str(view) if published else "as at the source",
        "Mean": f"{mean}, of values in [0, 1]; `preprocess_input` applies it",
        "Standard deviation": std,
    }
