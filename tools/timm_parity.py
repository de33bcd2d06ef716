"""Parity of networks with timm's: logits and the features of all stages.

Run by hand, each command in an environment of its own, in the root of the repository:

    python -m tools.timm_parity reference parity.npz   # with timm and PyTorch
    python -m tools.timm_parity compare parity.npz     # with lambda_keras

`reference --golden` also writes the few numbers that `test_timm_golden.py` compares with in
environments without timm. Weights and images come from NumPy, by the names of the tensors, so that
both sides make the same ones.
"""

import argparse
import hashlib
import json
import math
import re
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parents[1] / "tests" / "weights" / "timm_golden.json"
TOLERANCE = 1e-5  # of the largest value; float32 rounds to 6e-8, over some fifty layers
# Image sizes by network: square, wide, odd. Where a lambda layer has stride 2, timm needs an even
# map before it; global position embeddings are for 256 pixels, and timm's blocks of halo attention
# have to divide the map.
SIZES = {
    "lambda_resnet26t": ((256, 256), (96, 160), (127, 95)),
    "lambda_resnet26rpt_256": ((256, 256),),
    "lambda_resnet50ts": ((256, 256), (96, 160), (113, 75)),
    "botnet26t_256": ((256, 256),),
    "halonet26t": ((256, 256), (256, 512)),
    "halonet50ts": ((256, 256), (256, 512)),
    "resnet_rs50": ((160, 160), (97, 131)),
    "resnet50_pytorch": ((224, 224), (113, 75)),
}
NAMES = {"resnet_rs50": "resnetrs50", "resnet50_pytorch": "resnet50"}  # differing names of timm
ENDPOINTS = ("c2", "c3", "c4", "c5", "logits")


def fill(key: str, shape: tuple[int, ...]) -> np.ndarray:
    """Returns values for a tensor, seeded by its name, that no initializer would give."""
    rng = np.random.default_rng(zlib.crc32(key.encode()))
    if key.endswith("running_var"):
        return rng.uniform(0.5, 1.5, shape).astype("float32")
    if re.search(r"pos_emb|conv_lambda\.weight", key):
        return (0.3 * rng.standard_normal(shape)).astype("float32")
    if len(shape) > 1:  # kernels, output channels first, keep the variance
        return (rng.standard_normal(shape) / math.sqrt(math.prod(shape[1:]))).astype("float32")
    if key.endswith("weight"):  # gammas, never 0
        return rng.uniform(0.5, 1.0, shape).astype("float32")
    return (0.1 * rng.standard_normal(shape)).astype("float32")


def filled(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Returns values for all tensors of a checkpoint."""
    return {key: fill(key, tuple(shape)) for key, shape in sorted(shapes.items())}


def digest(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Returns a SHA-256 digest of all names and shapes of a checkpoint."""
    lines = [f"{key} {tuple(shape)}" for key, shape in sorted(shapes.items())]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def images(height: int, width: int) -> np.ndarray:
    """Returns one random image, `(1, height, width, 3)`."""
    return np.random.default_rng(height * width).standard_normal((1, height, width, 3), "float32")


def few(array: np.ndarray) -> list[float]:
    """Returns up to ten numbers spread over an array."""
    step = array.size // 10 | 1  # odd, so that it meets many channels
    return [float(f"{number:.8g}") for number in array.ravel()[::step][:10]]


def reference_outputs(name: str) -> tuple[dict[str, tuple[int, ...]], dict[str, np.ndarray]]:
    """Runs timm's network; returns the shapes of its tensors, and its outputs, channels last."""
    import timm  # pyright: ignore[reportMissingImports]
    import torch  # pyright: ignore[reportMissingImports]

    model = timm.create_model(NAMES.get(name, name)).eval()
    state = model.state_dict()
    shapes = {
        key: tuple(tensor.shape)
        for key, tensor in state.items()
        if not key.endswith("num_batches_tracked")
    }
    tensors = {key: torch.from_numpy(array) for key, array in filled(shapes).items()}
    model.load_state_dict({**state, **tensors})
    outputs = {}
    for height, width in SIZES[name]:
        with torch.inference_mode():
            x = torch.from_numpy(images(height, width).transpose(0, 3, 1, 2))
            if hasattr(model, "stem"):
                stem, stages, last = [model.stem], model.stages, model.final_conv
            else:
                stem = [model.conv1, model.bn1, model.act1, model.maxpool]
                stages = [model.layer1, model.layer2, model.layer3, model.layer4]
                last = torch.nn.Identity()
            for layer in stem:
                x = layer(x)
            arrays = []
            for stage in stages:
                x = stage(x)
                arrays.append(x.numpy().transpose(0, 2, 3, 1))
            arrays.append(model.forward_head(last(x)).numpy())
        for endpoint, array in zip(ENDPOINTS, arrays, strict=True):
            outputs[f"{name}/{height}x{width}/{endpoint}"] = array
    return shapes, outputs


def our_outputs(name: str, shapes: Mapping[str, tuple[int, ...]], sizes) -> dict[str, np.ndarray]:
    """Runs our network with the same weights, loaded from a safetensors file."""
    import keras
    from safetensors.numpy import save_file

    from zoo.registry import create_model

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_file(filled(shapes), path)
        model = create_model(name, weights=path, classifier_activation=None)
    layers = [*ENDPOINTS[:-1], "predictions"]
    network = keras.Model(model.input, [model.get_layer(layer).output for layer in layers])
    outputs = {}
    for height, width in sizes:
        arrays = network(images(height, width), training=False)
        for endpoint, array in zip(ENDPOINTS, arrays, strict=True):
            outputs[f"{name}/{height}x{width}/{endpoint}"] = keras.ops.convert_to_numpy(array)
    return outputs


def reference(path: Path, golden: bool) -> None:
    """Writes timm's outputs."""
    import timm  # pyright: ignore[reportMissingImports]
    import torch  # pyright: ignore[reportMissingImports]

    results = {name: reference_outputs(name) for name in SIZES}
    arrays = {key: array for _, outputs in results.values() for key, array in outputs.items()}
    shapes = {name: shapes for name, (shapes, _) in results.items()}
    contents: dict[str, Any] = {"shapes": json.dumps(shapes), **arrays}
    np.savez(path, **contents)
    print(f"timm {timm.__version__}, torch {torch.__version__}: wrote {path}")
    if golden:
        values = {
            "timm": timm.__version__,
            "torch": torch.__version__,
            "tensors": {name: digest(shapes[name]) for name in SIZES},
            "outputs": {
                key: {"shape": array.shape, "max": float(np.abs(array).max()), "few": few(array)}
                for key, array in arrays.items()
            },
        }
        text = json.dumps(values).replace(', "', ',\n"')  # an entry per line
        GOLDEN.write_text(text + "\n", encoding="utf-8")
        print(f"wrote {GOLDEN}")


def compare(path: Path) -> None:
    """Prints the differences from timm's outputs, and fails if one is too large."""
    failed = []
    with np.load(path) as arrays:
        shapes = json.loads(str(arrays["shapes"]))
        print(f"{'network':<24}{'image':<10}{'endpoint':<10}{'largest':>10}{'difference':>13}")
        for name, sizes in SIZES.items():
            for key, ours in our_outputs(name, shapes[name], sizes).items():
                expected = arrays[key]
                largest = np.abs(expected).max()
                difference = np.abs(ours - expected).max() / largest
                _, size, endpoint = key.split("/")
                print(f"{name:<24}{size:<10}{endpoint:<10}{largest:>10.3g}{difference:>13.1e}")
                if not difference <= TOLERANCE:
                    failed.append(key)
    if failed:
        raise SystemExit(f"differ by more than {TOLERANCE:g} of the largest value: {failed}")


def main() -> None:
    """Runs the command of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for command in ("reference", "compare"):
        commands.add_parser(command).add_argument("path", type=Path, help="the .npz file")
    commands.choices["reference"].add_argument("--golden", action="store_true")
    arguments = vars(parser.parse_args())
    {"reference": reference, "compare": compare}[arguments.pop("command")](**arguments)


if __name__ == "__main__":
    main()
