"""How far folded networks are from those they come from: `python -m zoo.benchmark folding`."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from zoo.benchmark.networks import ZooNetwork, parse
from zoo.benchmark.report import Column, Report, print_table, progress
from zoo.benchmark.settings import EachOnce, KerasSettings, each
from zoo.registry import TABLE, create_model, set_batch_norm

if TYPE_CHECKING:
    import keras

FOLDED, ROUNDED = "difference", "one_rounding"
CONVENTIONS = {
    "weights": "random kernels; gammas from 0.5 to 1.5, betas of standard deviation 0.1; moving "
    "means are those of one random image, moving variances its mean squares times 0.5 to 2",
    FOLDED: "largest difference of the logits, folded and not, in parts of the largest logit",
    ROUNDED: "the same between an image and that image times 1 + 2^-23, not folded: what rounding "
    "alone does to a network",
}
COLUMNS = (
    Column("size", "image_size", str),
    Column("folded", FOLDED, "{:.1e}".format),
    Column("one rounding of the image", ROUNDED, "{:.1e}".format),
)


def _of_the_zoo(text: str) -> None:
    network = parse(text, libraries={"": ZooNetwork})
    if network.overrides:
        raise ValueError(f"expected NAME[@SIZE]. Received: {text!r}")


class Config(KerasSettings, cli_prog_name="python -m zoo.benchmark folding"):
    """Compares networks with and without batch normalization folded, on random weights."""

    models: Annotated[tuple[str, ...], EachOnce, each(_of_the_zoo)] = Field(
        default=tuple(TABLE), description="Networks of the zoo, NAME[@SIZE]."
    )


def run(config: Config, arguments: Sequence[str]) -> None:
    """Compares, prints and writes."""
    config.import_backend()
    report = Report(config, arguments, [config.keras_backend], CONVENTIONS)
    report.content["backend"] = config.keras_backend
    for name in config.models:
        progress(f"comparing {name}")
        report.rows.append(compare(name))
        report.write()
    progress("")
    print_table("folded and not", "entry", COLUMNS, report.rows)
    report.finish()


def compare(name: str) -> dict[str, Any]:
    """Returns the row of a network."""
    import keras

    from lambda_keras.applications import fold_batch_normalization

    network = parse(name, libraries={"": ZooNetwork})
    keras.backend.clear_session()
    keras.utils.set_random_seed(0)
    shape = (network.image_size, network.image_size, 3)
    model = create_model(network.model, input_shape=shape, classifier_activation=None)
    images = np.random.default_rng(1).standard_normal((1, *shape)).astype("float32")
    randomize(model, images)

    def ask(model: "keras.Model", images: np.ndarray) -> np.ndarray:
        return keras.ops.convert_to_numpy(model(images, training=False)).astype("float64")

    logits = ask(model, images)
    away = partial(_difference, logits)
    return {
        "entry": name,
        "image_size": network.image_size,
        ROUNDED: away(ask(model, images * np.float32(1 + 2**-23))),
        FOLDED: away(ask(fold_batch_normalization(model), images)),
    }


def _difference(expected: np.ndarray, got: np.ndarray) -> float:
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def randomize(model: "keras.Model", images: np.ndarray) -> None:
    """Gives batch normalizations numbers that no initialization has, and that do not explode."""
    import keras

    random = np.random.default_rng(0)
    norms = [
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.BatchNormalization)
    ]
    for norm in norms:
        norm.gamma.assign(random.uniform(0.5, 1.5, norm.gamma.shape))
        norm.beta.assign(random.normal(0, 0.1, norm.beta.shape))
    momenta = [norm.momentum for norm in norms]
    set_batch_norm(model, 0.0, synchronized=False)
    model(images, training=True)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
        # Mean squares: divided by the deviation of what is almost constant, as random attention
        # gives it, a rounding would grow to any size.
        squares = norm.moving_variance + norm.moving_mean**2
        spread = random.uniform(0.5, 2.0, norm.moving_variance.shape)
        norm.moving_variance.assign(squares * spread)
