"""Counts of deep networks, whose blocks are counted where 50 layers are built."""

import collections
from collections.abc import Iterable

from lambda_keras.applications import flops
from support import networks
from zoo.registry import create_model


def kind_of(stage: str, block: int, has_lambda: bool) -> tuple[str, bool, bool]:
    """Blocks of one kind have as many parameters and operations: the first has the shortcut."""
    return stage, block == 1, has_lambda


def counts_of_deep(
    form: str, size: int, names: Iterable[str], **arguments
) -> dict[str, tuple[int, float]]:
    """Parameters and 10^9 operations of deep models of a family of `networks.FORMS`, by name."""
    with networks.undrawn():
        model = create_model(form.format(50), input_shape=(size, size, 3), **arguments)
    with networks.specs_alone():
        specs = {name: create_model(name, **arguments) for name in names}
    with_lambda = networks.lambda_blocks(model)
    sums, blocks = collections.Counter(), collections.defaultdict(set)
    for layer, node in flops.calls(model):
        stage, _, rest = layer.name.partition("_block")
        number = rest.split("_")[0]
        block = f"{stage}_block{number}"
        kind = kind_of(stage, int(number), block in with_lambda) if rest else "around"
        blocks[kind].add(block if rest else "")
        sums[kind, "parameters"] += networks.trainable_parameters(layer)
        sums[kind, "operations"] += sum(flops.call_flops(layer, node).values())
    counts = {}
    for name, spec in specs.items():
        kinds = ["around"]
        for stage, count, mixed in zip(
            networks.STAGES, spec.blocks, spec.mixer_blocks, strict=True
        ):
            kinds += [kind_of(stage, block, block in mixed) for block in range(1, count + 1)]
        parameters, operations = (
            sum(sums[kind, what] // len(blocks[kind]) for kind in kinds)
            for what in ("parameters", "operations")
        )
        counts[name] = parameters, round(operations / 1e9, 3)
    return counts
