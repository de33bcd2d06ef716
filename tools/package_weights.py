"""Weights of a run for `lambda_keras.weights`: `python -m tools.package_weights --help`."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import Field
from pydantic_settings import CliPositionalArg

from lambda_keras.models.specs import NETWORKS
from zoo import model_card
from zoo.cli.run import run_command
from zoo.cli.settings import Settings
from zoo.errors import printable
from zoo.fields import LocalPath
from zoo.files import atomic_write
from zoo.run_folder import load_config, load_metrics
from zoo.variables import trainable_parameters

ROOT = Path(__file__).parents[1]
LARGEST = 2_000_000  # bytes of a file in the wheel
ORIGINS = {
    "fashion_mnist": "[Fashion-MNIST](https://github.com/zalandoresearch/fashion-mnist) (Xiao et "
    "al., 2017), MIT license: gray images of 28x28, clothes in white on black"
}
USE = """```python
from lambda_keras.applications import {constructor}, decode_predictions, preprocess_input

model = {constructor}(weights="{data}")
predictions = model.predict(preprocess_input(images))  # (images, {size}, {size}, 3), in [0, 255]
decode_predictions(predictions, top=1, weights="{data}")
```

Gray images have three equal channels. `adapt_weights=True` accepts other classes and channels."""


class PackageConfig(Settings):
    """Puts the weights of a finished run into the package, with a model card.

    Writes NETWORK_DATA.safetensors and its card (.md) to lambda_keras/weights, and accuracy and
    checksum into the row of the network in lambda_keras/models/specs.py. Example:

      python -m tools.package_weights runs/fashion0 runs/fashion1 runs/fashion2
    """

    runs: CliPositionalArg[list[LocalPath]] = Field(min_length=1)
    """Run to package, then runs with other seeds, whose accuracy the card states, too."""
    root: LocalPath = ROOT
    """Checkout to write to."""


def main(arguments: Sequence[str]) -> None:
    """Reads the runs, then writes weights, card and row."""
    config = PackageConfig.from_command_line(arguments, "python -m tools.package_weights")
    settings = [load_config(run) for run in config.runs]
    results = [load_metrics(run) for run in config.runs]
    name, data = settings[0].model.name, settings[0].data.name
    published = NETWORKS[name].published(data)
    if published is None or not published.is_packaged or settings[0].model.overrides:
        raise ValueError(
            "runs: expected a network with a row of packaged weights, as it is there. Received: "
            f"{name} on {data}, overrides={settings[0].model.overrides}"
        )
    same = [
        run_config.model_dump(exclude={"output_dir": True, "training": {"seed"}})
        for run_config in settings
    ]
    seeds = [run_config.training.seed for run_config in settings]
    if any(fields != same[0] for fields in same) or len(set(seeds)) != len(seeds):
        raise ValueError(f"runs: expected settings that differ in the seed. Received: {seeds}")

    from lambda_keras.weights import load_weights, save_safetensors
    from lambda_keras.weights.hub import sha256
    from zoo.inference.source.run import Run
    from zoo.registry import create_model

    trained = Run(config.runs[0]).load()
    path = config.root / "lambda_keras" / "weights" / published.filename
    with atomic_write(path) as new, atomic_write(path.with_suffix(".md")) as card:
        save_safetensors(trained.model, new)
        if path.is_file() and _same(path, new):  # the header of `new` may have another order
            new.write_bytes(path.read_bytes())
        loaded = create_model(name, classes=len(trained.class_names))
        load_weights(loaded, new, name)
        for weights, others in zip(loaded.get_weights(), trained.model.get_weights(), strict=True):
            np.testing.assert_array_equal(weights, others)
        if (size := new.stat().st_size) > LARGEST:
            raise ValueError(f"expected a file of at most {LARGEST:,} bytes. Received: {size:,}")
        checksum = sha256(new)
        accuracies = [100 * metrics.test.accuracy for metrics in results]
        training = settings[0].training
        by_seed = ", ".join(
            f"{value:.2f} (seed {seed})" for value, seed in zip(accuracies, seeds, strict=True)
        )
        fields = {
            "Weights": f"`{path.name}`, the first seed ({seeds[0]}), {size:,} bytes, float32",
            "SHA-256": f"`{checksum}`",
            "Trainable parameters": f"{trainable_parameters(loaded):,}",
            "Data": ORIGINS[str(data)],
            "Recipe": f"`python -m zoo.train --config {name}_{data}`: "
            f"{results[0].training_images:,} images, {training.epochs} epochs, "
            f"{training.precision}",
            "Test accuracy": f"{by_seed} % of {results[0].test_images:,} images, after the last "
            f"epoch, in {training.precision}",
            "License": f"{published.license}; of the images see Data",
            **trained.card("`preprocess_input`"),
            "Classes": ", ".join(trained.class_names),
        }
        use = USE.format(constructor=NETWORKS[name].constructor, data=data, size=trained.image_size)
        model_card.write(card, f"{name}, {published.data}", fields, {"Use": use})
    write_row(config.root, published.filename, accuracies[0], checksum)
    print(f"wrote {printable(path)} ({size:,} bytes), its card and its row")


def _same(path: Path, other: Path) -> bool:
    """Returns whether two files contain the same arrays."""
    from lambda_keras.weights.files import read_safetensors

    first, second = (read_safetensors(file)[0] for file in (path, other))
    return first.keys() == second.keys() and all(
        np.array_equal(first[name], second[name]) for name in first
    )


def write_row(root: Path, filename: str, top1: float, checksum: str) -> None:
    """Writes accuracy and checksum of packaged weights into their row."""
    specs = root / "lambda_keras" / "models" / "specs.py"
    row = rf'(\.weights", )[\d.]+(, [\d., ]+"{re.escape(filename)}",\s+checksum=)"\w*"'
    text, count = re.subn(row, rf'\g<1>{top1:.2f}\g<2>"{checksum}"', specs.read_text("utf-8"))
    if count != 1:
        raise ValueError(f"expected one row of {filename} in {specs}. Received: {count}")
    specs.write_text(text, "utf-8")


if __name__ == "__main__":
    run_command(main)
