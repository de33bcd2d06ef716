"""Floating-point operations and attention maps of a model: `python -m zoo.flops NAME`."""

from collections import Counter
from typing import TYPE_CHECKING, Literal

from pydantic import Field
from pydantic_settings import CliPositionalArg

from zoo.cli.settings import Settings
from zoo.fields import BatchSize, TypedValues

if TYPE_CHECKING:
    import keras


class FlopsConfig(Settings):
    """Counts the floating-point operations of a model for one image, by the paper's conventions.

    A multiply-accumulate counts as two; position lambdas see the scope, at most the whole map.
    --batch adds the memory that grows with pairs of positions (Table 4): attention maps, and the
    embeddings of position lambdas, which the batch shares. Example (D.2):

      python -m zoo.flops lambda_resnet420 --batch 32 --dtype bfloat16 --overrides mixer=global
    """

    model: CliPositionalArg[str]
    """Model, by its name: see python -m zoo.list."""
    image_size: int | None = Field(default=None, ge=8, le=2**16)
    """Height and width in pixels; None: the model's own."""
    overrides: TypedValues = Field(default={})
    """Other constructor arguments, e.g. --overrides placement=CLLL,scope=[7,7,7,23]"""
    batch: BatchSize | None = None
    """Batch size for the memory of attention maps; None: not counted."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Dtype of attention maps."""


def run(config: FlopsConfig) -> None:
    """Builds the model and prints its table."""
    from lambda_keras.applications.flops import count_flops_by_stage
    from zoo.registry import create_model, find_model
    from zoo.variables import trainable_parameters

    size = config.image_size or find_model(config.model).image_size
    model = create_model(config.model, **{"input_shape": (size, size, 3), **config.overrides})
    stages = {name: Counter(kinds) for name, kinds in count_flops_by_stage(model).items()}
    stages["all"] = sum(stages.values(), Counter())
    kinds = list(stages["all"])
    height, width, _ = model.input_shape[1:]
    print(f"{config.model} at {height}x{width}")
    print(f"trainable parameters {trainable_parameters(model):,}")
    print(f"floating-point operations {stages['all'].total() / 1e9:.3f} G\n")
    print(f"{'GFLOPs':<12}" + "".join(f"{kind:>13}" for kind in [*kinds, "all"]))
    for name, stage in stages.items():
        counts = [*(stage[kind] for kind in kinds), stage.total()]
        cells = (f"{count / 1e9:.3f}" if count else "" for count in counts)
        print(f"{name:<12}" + "".join(f"{cell:>13}" for cell in cells))
    if config.batch:
        mib = (4 if config.dtype == "float32" else 2) / 2**20
        maps = count_maps(model, config.batch)
        total = mib * sum(elements * layers for (*_, elements), layers in maps.items())
        print(f"\npairs of positions, batch {config.batch}, {config.dtype}: {total:.2f} MiB\n")
        print(f"{'stage':<12}{'map':>13}{'layers':>13}{'MiB each':>13}{'MiB':>13}")
        for (stage, size, elements), layers in maps.items():
            each = f"{elements * mib:>13.2f}{elements * layers * mib:>13.2f}"
            print(f"{stage:<12}{size:>13}{layers:>13}{each}")


def count_maps(model: "keras.Model", batch: int) -> Counter[tuple[str, str, int]]:
    """Counts layers by stage, size of the feature map, and number of elements.

    Elements are of attention maps, or of embeddings of position lambdas. Embeddings that layers
    share count once for each size (Table 4).
    """
    from lambda_keras.applications.flops import calls

    counts, shared = Counter(), set()
    for layer, node in calls(model):
        if hasattr(layer, "count_map_elements"):
            _, *grid, depth = node.input_tensors[0].shape
            size = "x".join(map(str, grid))
            elements = layer.count_map_elements((batch, *grid, depth))
            if getattr(layer, "position_embedding", None) == "shared":
                elements *= size not in shared
                shared.add(size)
            if elements:
                counts[layer.name.split("_")[0], size, elements] += 1
    return counts
