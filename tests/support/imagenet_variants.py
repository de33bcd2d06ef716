"""Small data in the layout of the variants of ImageNet, and a network for them."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from lambda_keras.applications import preprocess_input
from lambda_keras.applications.preprocessing import imagenet_classes
from zoo import run_folder
from zoo.config import TrainConfig
from zoo.evaluate import __main__ as evaluate
from zoo.evaluate import variants

NUMBERS = [number for number, _ in imagenet_classes()]
# A network's order of the classes, which is not that of the data.
OWN = np.random.default_rng(1).permutation(NUMBERS).tolist()


def write_set(folder: Path, name: str, examples: Sequence[dict[str, Any]], side: int = 16) -> None:
    """Writes images, each of one color, as TFDS itself would after a download.

    An example has `color`, and the features of the data set apart from `image` and `file_name`.
    """
    import tensorflow_datasets as tfds

    builder = tfds.builder(name, data_dir=folder)
    writer = tfds.core.SequentialWriter(builder.info, max_examples_per_shard=9)
    split = variants.SPLITS[variants.dataset_of(name)]
    builder.data_path.mkdir(parents=True)
    writer.initialize_splits([split])
    for number, example in enumerate(examples):
        image = io.BytesIO(jpeg(example["color"], side))
        labels = {key: value for key, value in example.items() if key != "color"}
        writer.add_examples({split: [{"image": image, "file_name": f"{number}.JPEG", **labels}]})
    writer.close_all()


def jpeg(color: Sequence[int], side: int = 16) -> bytes:
    """An image of one color; text is an image that is none."""
    if isinstance(color, str):
        return color.encode()
    pixels = np.full((side, side, 3), color, "uint8")
    return tf.io.encode_jpeg(pixels, quality=100).numpy()


def write_network(folder: Path) -> tuple[Path, keras.Model]:
    """Run whose network looks at the mean color, with class names in another order."""
    data = {"source": "tfds", "name": "imagenet2012", "test_split": "train[:5%]"}
    run_folder.start(TrainConfig(output_dir=folder, model={"image_size": 16}, data=data))
    inputs = keras.Input((16, 16, 3))
    x = keras.layers.GlobalAveragePooling2D()(inputs)
    start = keras.initializers.RandomNormal(0, 2, seed=0)
    outputs = keras.layers.Dense(1000, "softmax", kernel_initializer=start, name="predictions")(x)
    model = keras.Model(inputs, outputs)
    model.save(folder / run_folder.MODEL)
    counts = {"test": {"accuracy": 0.5}, "test_images": 2, "training_images": 2}
    run_folder.write_metrics(folder, {"class_names": OWN, **counts})
    return folder, model


def logits(model: keras.Model, colors: np.ndarray) -> np.ndarray:
    """Logits of images of one color, in the order of ImageNet."""
    colors = np.array([tf.io.decode_jpeg(jpeg(color))[0, 0] for color in colors])
    kernel, bias = model.layers[-1].get_weights()
    images = preprocess_input(colors[:, None, None, :].astype("float32"))
    mean = keras.ops.convert_to_numpy(images).mean((1, 2))
    return (mean @ kernel + bias)[:, [OWN.index(number) for number in NUMBERS]]


def random_colors(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, 1)) * np.ones((1, 3), int) // [1, 2, 3]


def run(network: Path, folder: Path, name: str, *others: str) -> dict[str, Any]:
    arguments = ["--run", str(network), "--data.dir", str(folder), "--data.name", name]
    evaluate.main([*arguments, "--data.batch_size", "8", "--output", str(folder / "out"), *others])
    return json.loads((folder / "out" / "evaluation.json").read_text("utf-8"))
