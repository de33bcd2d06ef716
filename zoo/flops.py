"""Floating-point operations of a model of the zoo: `python -m zoo.flops NAME`."""

from collections import Counter
from collections.abc import Sequence

from pydantic import Field
from pydantic_settings import CliPositionalArg

from zoo.cli.run import BACKENDS, run_command
from zoo.cli.settings import Settings, TypedValues


class FlopsConfig(Settings, cli_prog_name="python -m zoo.flops"):
    """Counts the floating-point operations of a model for one image, by the paper's conventions.

    Two for each multiply-accumulate; position lambdas see the scope, at most the whole map.
    """

    model: CliPositionalArg[str]
    """Model, by its name: see python -m zoo.list."""
    image_size: int | None = Field(default=None, ge=8)
    """Height and width in pixels; None: the model's own."""
    overrides: TypedValues = Field(default={})
    """Other constructor arguments, e.g. --overrides placement=CLLL,scope=[7,7,7,23]"""


def main(arguments: Sequence[str]) -> None:
    """Builds the model and prints its table."""
    config = FlopsConfig.from_command_line(arguments)
    from lambda_keras.applications.flops import count_flops_by_stage
    from zoo.registry import create_model, find_model, trainable_parameters

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


if __name__ == "__main__":
    run_command(main, BACKENDS)
