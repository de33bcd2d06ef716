"""Times whole networks in turn: `python -m zoo.benchmark models`."""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Annotated, Any

from pydantic import Field

from zoo.benchmark.cases import Bench, quotient
from zoo.benchmark.networks import MODES, Modes, Network, parse
from zoo.benchmark.report import columns, installed
from zoo.benchmark.settings import FORWARD, TRAINING, BackendSettings, EachOnce, MixedDtype
from zoo.cli.settings import checked_by

CONVENTIONS = {
    FORWARD: "training=False, the classifier's softmax included; with folded=true as zoo.predict "
    "runs it: batch normalization folded, weights as constants; "
    "timm: eval() in torch.inference_mode, logits; with compile=true by torch.compile",
    TRAINING: "train_step of Keras: forward with training=True, categorical cross-entropy, "
    "gradients by all trainable variables, SGD with momentum 0.9, moving averages of batch "
    "normalizations; the learning rate is 0, so that every step sees the same weights; timm: the "
    "same in train(), from logits",
    "images": "random float32 numbers on the device; the EfficientNets of keras.applications "
    "rescale and normalize them as part of the network",
    "regularization": "the defaults of each constructor: the EfficientNets of keras.applications "
    "train with dropout and stochastic depth, the networks of the zoo without",
    "parameters": "trainable ones",
    "ratio": "images per second divided by those of the first network",
}
COLUMNS = columns("parameters", "ms", "images_per_second", "ratio", "temporary_bytes")


class Config(BackendSettings, cli_prog_name="python -m zoo.benchmark models"):
    """Times whole networks, forward and training step, compared with keras.applications.

    --models lists NAME[@SIZE[xBATCH]][:ARGUMENT=VALUE]..., separated by commas. NAME is a network of the
    zoo (python -m zoo.list), keras.NAME of keras.applications (keras.EfficientNetB1), or timm.NAME
    of timm on PyTorch. For networks of the zoo, SIZE defaults to the image size of their published
    accuracy. Arguments are the arguments of the zoo's constructors, as in
    resnet50@224:placement=LLLL:implementation=einsum, and folded=true for the network as
    zoo.predict runs it, for inference only; for networks of timm, compile=true for PyTorch's
    compiler, and channels_last=true for the other memory format.

    All networks are compiled as users run them (tf.function, jax.jit, or eager PyTorch) and timed
    in turn in one process. Ratios are to the first network.
    """

    models: Annotated[tuple[Annotated[str, checked_by(parse)], ...], EachOnce] = (
        "lambda_resnet50@160",
        "keras.EfficientNetB1@240",
        "lambda_resnet101@192",
        "keras.EfficientNetB3@300",
    )
    """Networks; the first one is what the others are compared with."""
    batch: int = Field(default=8, ge=1)
    """Images per step, for networks that do not say."""
    dtype: MixedDtype = "float32"
    """Keras dtype policy of the networks."""
    modes: Modes = MODES


def run(config: Config, arguments: Sequence[str]) -> None:
    """Runs the benchmark, and prints and writes the results."""
    networks = [parse(text, config.batch, config.dtype) for text in config.models]
    packages = list(dict.fromkeys(name for network in networks for name in network.packages))
    installed(packages, f"pip install {' '.join(packages)}")
    for package in packages:
        import_module(package)  # PyTorch's compiler crashes if TensorFlow's LLVM is loaded first
    bench = Bench(config, arguments, CONVENTIONS, packages)
    bench.measure(networks, config.modes, COLUMNS, partial(compare, networks))
    bench.finish()


def compare(networks: Sequence[Network], found: Mapping[str, dict[str, Any]]) -> None:
    """Adds images per second, and their ratio to the first network."""
    for network in networks:
        one = found[network.name]
        one["images_per_second"] = quotient(1e3 * network.batch, one["ms"])
        one["ratio"] = quotient(
            one["images_per_second"], found[networks[0].name]["images_per_second"]
        )
