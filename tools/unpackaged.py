"""Outputs of axial and efficient attention by implementations that are only on GitHub.

Run by hand in an environment with PyTorch, next to checkouts of both:

    git clone https://github.com/csrhddlam/axial-deeplab
    git clone https://github.com/cmsflash/efficient-attention
    python tools/unpackaged.py axial-deeplab efficient-attention

It writes `tests/layers/attention/unpackaged.npz`: images, the modules' parameters and statistics,
and their outputs. `test_unpackaged.py` there gives the same parameters to our layers.
"""

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

ARRAYS = Path(__file__).parents[1] / "tests/layers/attention/unpackaged.npz"
DEPTH, FILTERS, HEADS, KEY_DIM, HEIGHT, WIDTH = 6, 8, 2, 3, 5, 4


def main() -> None:
    """Writes the arrays."""
    parser = argparse.ArgumentParser(description="Writes unpackaged.npz.")
    parser.add_argument("axial_deeplab", type=Path)
    parser.add_argument("efficient_attention", type=Path)
    arguments = parser.parse_args()
    sys.path[:0] = [str(arguments.axial_deeplab / "lib"), str(arguments.efficient_attention)]
    rng = np.random.default_rng(0)
    arrays: Any = {**axial(rng), **efficient(rng)}
    np.savez_compressed(ARRAYS, **arrays)


def axial(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Runs attention along height, then width, in inference and in training mode."""
    torch: Any = importlib.import_module("torch")

    module = importlib.import_module("models.axialnet").AxialAttention
    columns = module(DEPTH, FILTERS, groups=HEADS, kernel_size=HEIGHT)
    rows = module(FILTERS, FILTERS, groups=HEADS, kernel_size=WIDTH, width=True)
    layers = torch.nn.Sequential(columns, rows)
    images = rng.normal(size=(2, DEPTH, HEIGHT, WIDTH)).astype("float32")
    state = _randomize(layers, rng)
    with torch.no_grad():
        outputs = layers.eval()(torch.tensor(images)).numpy()
        trained = layers.train()(torch.tensor(images)).numpy()
    named = {"images": images, "outputs": outputs, "training_outputs": trained, **state}
    return {f"axial/{name}": array for name, array in named.items()}


def efficient(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Runs efficient attention, with its residual connection and projections."""
    torch: Any = importlib.import_module("torch")

    module = importlib.import_module("efficient_attention").EfficientAttention
    module = module(DEPTH, HEADS * KEY_DIM, HEADS, FILTERS)
    images = rng.normal(size=(2, DEPTH, HEIGHT, WIDTH)).astype("float32")
    state = _randomize(module, rng, lambda name: 0 if "bias" in name else 1)
    with torch.no_grad():
        outputs = module(torch.tensor(images)).numpy()
    named = {"images": images, "outputs": outputs, **state}
    return {f"efficient/{name}": array for name, array in named.items()}


def _randomize(module, rng, scale=lambda name: 1) -> dict[str, np.ndarray]:
    """Sets random parameters and statistics of a module, and returns them."""
    torch: Any = importlib.import_module("torch")

    state = {}
    for name, tensor in module.state_dict().items():
        if not tensor.is_floating_point() or tensor.ndim == 0:
            continue
        drawn = rng.normal(size=tensor.shape)
        if tensor.ndim == 1 and "bias" not in name and "mean" not in name:
            drawn = rng.uniform(0.5, 1.5, tensor.shape)  # gammas and variances
        state[name] = (scale(name) * drawn).astype("float32")
        with torch.no_grad():
            tensor.copy_(torch.tensor(state[name]))
    return state


if __name__ == "__main__":
    main()
