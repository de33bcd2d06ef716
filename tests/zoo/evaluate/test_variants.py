"""Variants of ImageNet, on small data in the layout of each set of TFDS."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import softmax

from lambda_keras.applications import preprocess_input
from lambda_keras.applications.preprocessing import imagenet_classes
from zoo import run_folder
from zoo.config import DataConfig, TrainConfig
from zoo.data.load import held_out_preprocessing
from zoo.evaluate import __main__ as evaluate
from zoo.evaluate import corruptions, variants
from zoo.evaluate.corruptions import CorruptionErrors

NUMBERS = [number for number, _ in imagenet_classes()]
# A network's order of the classes, which is not that of the data.
OWN = np.random.default_rng(1).permutation(NUMBERS).tolist()
IN_A, IN_R = variants.class_subset("imagenet_a"), variants.class_subset("imagenet_r")


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


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> tuple[Path, keras.Model]:
    """Run whose network looks at the mean color, with class names in another order."""
    folder = tmp_path_factory.mktemp("runs") / "imagenet"
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


def figures(logits: np.ndarray, is_true: np.ndarray) -> dict[str, Any]:
    """Results of logits, by hand; `is_true` has the same shape."""
    probabilities = softmax(logits.astype("float64"), -1)
    hits = np.take_along_axis(is_true, np.argsort(-logits, -1), -1)
    results = {
        "top1": hits[:, 0].mean(),
        "top5": hits[:, :5].any(-1).mean(),
        "loss": -np.log((probabilities * is_true).sum(-1)).mean(),
        "images": len(logits),
    }
    return {name: pytest.approx(value, rel=1e-3) for name, value in results.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "classes"),
    [("imagenet_a", IN_A), ("imagenet_r", IN_R), ("imagenet_v2/topimages", NUMBERS)],
    ids=lambda value: value if isinstance(value, str) else str(len(value)),
)
def test_one_label(network, tmp_path, capsys, name, classes):
    folder, model = network
    colors = random_colors(30)
    expected = logits(model, colors)[:, [NUMBERS.index(number) for number in classes]]
    # Half of the labels are the best of the classes that count, often not the best of all.
    labels = np.where(np.arange(30) % 2, expected.argmax(-1), np.arange(30) * 5)
    examples = [
        {"color": color, "label": classes[label]}
        for color, label in zip(colors, labels, strict=True)
    ]
    write_set(tmp_path, name, [*examples, {"color": "broken", "label": classes[0]}])
    written = run(folder, tmp_path, name, "--data.unreadable", "skip")
    by_hand = figures(expected, np.eye(len(classes), dtype=bool)[labels])
    assert {key: written[key] for key in by_hand} == by_hand
    assert [row["name"] for row in written["classes"]] == list(classes)
    assert ("200 of 1,000 classes" in capsys.readouterr().out) == (len(classes) == 200)
    with pytest.raises(ValueError, match=r"^data: unreadable image: .*30"):
        run(folder, tmp_path, name)


def test_the_published_classes():
    assert (len(set(IN_A)), len(set(IN_R)), len(set(IN_A) & set(IN_R))) == (200, 200, 86)
    assert {*IN_A, *IN_R} <= set(NUMBERS)
    # What the fake data of TFDS' own tests has.
    assert {"n01580077", "n01616318", "n07697313"} <= set(IN_A)
    assert {"n01443537", "n01484850", "n12267677"} <= set(IN_R)
    assert variants.class_subset("imagenet_v2") is variants.class_subset(None) is None
    for name in ("imagenet_a:0.1.0", "imagenet_a/test:0.1.0"):  # with version and configuration
        assert variants.class_subset(name) == IN_A


@pytest.mark.slow
def test_several_labels_and_none(network, tmp_path, capsys):
    folder, model = network
    colors = random_colors(20)
    expected = logits(model, colors)
    order = np.argsort(-expected, -1)
    # In turn: none; the best one, twice; the second and the fourth; two in the middle.
    kinds = ([], [0, 0], [3, 1], [400, 401])
    labels = [order[i, kinds[i % 4]].tolist() for i in range(20)]
    examples = [
        {"color": color, "original_label": 0, "real_label": several}
        for color, several in zip(colors, labels, strict=True)
    ]
    write_set(tmp_path, "imagenet2012_real", examples)
    written = run(folder, tmp_path, "imagenet2012_real")
    labeled = [i for i in range(20) if i % 4]
    is_true = np.zeros((20, 1000), bool)
    for i in labeled:
        is_true[i, labels[i]] = True
    by_hand = figures(expected[labeled], is_true[labeled])
    assert {key: written[key] for key in by_hand} == by_hand
    assert (written["top1"], written["images"]) == (pytest.approx(1 / 3), 15)
    assert written["top5"] == pytest.approx(2 / 3)


def test_training_needs_one_label():
    with pytest.raises(ValueError, match="images of one label each to train on"):
        TrainConfig(data={"source": "tfds", "name": "imagenet2012_real"})


KINDS = dict(list(variants.corruptions().items())[:2])
ERRORS = np.array([[0, 0.25], [0.5, 1]])


def test_corruption_errors_are_relative_to_those_of_alexnet(tmp_path, capsys):
    result = CorruptionErrors(KINDS, ERRORS, 16)
    relative = ERRORS.mean(1) / [0.886428, 0.894468]
    corruptions.print_table(result, "title")
    printed = capsys.readouterr().out
    assert f"(mCE) {100 * relative.mean():.1f} % of AlexNet's; unnormalized 43.8 %" in printed
    rows = [line.replace("│", " ").split() for line in printed.splitlines()]
    expected = [*(100 * ERRORS[1]), 75.0, 89.4468, 100 * relative[1]]
    assert ["shot", "noise", *(f"{value:.1f}" for value in expected)] in rows
    corruptions.write(result, "title", {}, tmp_path)
    written = json.loads((tmp_path / "evaluation.json").read_text("utf-8"))
    assert written["mean_error"] == pytest.approx(0.4375)
    assert written["mean_corruption_error"] == pytest.approx(relative.mean())
    assert written["images"] == 16
    for row, errors, figure in zip(written["corruptions"], ERRORS, relative, strict=True):
        assert row["errors"] == errors.tolist()
        assert (row["error"], row["corruption_error"]) == pytest.approx((errors.mean(), figure))
    assert (tmp_path / "corruptions.png").stat().st_size > 10_000


def test_every_corruption_is_evaluated_at_every_severity(monkeypatch):
    right, names, precisions = iter([1, 0.75, 0.5, 0]), [], []

    def images(data, _=None):
        names.append(data.name)
        return SimpleNamespace(test=None, class_names=())

    network = SimpleNamespace(preprocessing=None)
    network.computing_in = lambda policy: precisions.append(policy) or network
    source = SimpleNamespace(load_with_images=lambda data: (network, images(data)))
    for name, replacement in {
        "corruptions": lambda: KINDS,
        "SEVERITIES": (1, 2),
        "load_images": images,
        "match_classes": lambda *_: None,
        "evaluate": lambda *_: SimpleNamespace(top1=next(right), images=4),
    }.items():
        monkeypatch.setattr(corruptions, name, replacement)
    _, result = corruptions.run(source, DataConfig(), "auto")
    assert precisions == ["auto"]
    assert (result.errors.tolist(), result.images) == (ERRORS.tolist(), 16)
    prefix = "imagenet2012_corrupted/"
    assert names == [f"{prefix}{name}_{number}" for name in KINDS for number in (1, 2)]


@pytest.mark.slow
def test_corruptions(network, tmp_path, monkeypatch):
    """Two corruptions at two severities, four images each; then a severity that is not there."""
    monkeypatch.setattr(corruptions, "corruptions", lambda: KINDS)
    monkeypatch.setattr(corruptions, "SEVERITIES", range(1, 3))
    colors = random_colors(4)
    best = logits(network[1], colors).argmax(-1)
    for number, right in enumerate((4, 3, 2, 0)):
        labels = np.where(np.arange(4) < right, best, (best + 1) % 1000)
        examples = [
            {"color": color, "label": int(label)}
            for color, label in zip(colors, labels, strict=True)
        ]
        name = f"imagenet2012_corrupted/{list(KINDS)[number // 2]}_{number % 2 + 1}"
        write_set(tmp_path, name, examples, side=224)
    written = run(network[0], tmp_path, "imagenet2012_corrupted")
    assert [row["errors"] for row in written["corruptions"]] == ERRORS.tolist()
    assert written["images"] == 16
    assert run(network[0], tmp_path, "imagenet2012_corrupted/shot_noise_1")["top1"] == 0.5

    monkeypatch.setattr(corruptions, "SEVERITIES", range(1, 4))
    monkeypatch.setattr(corruptions, "evaluate", lambda *_: pytest.fail("the work began"))
    with pytest.raises(ValueError, match="corrupted/gaussian_noise_3 is not prepared in"):
        run(network[0], tmp_path, "imagenet2012_corrupted")


def test_the_corruptions_of_the_benchmark():
    import tensorflow_datasets as tfds

    known = {config.name for config in tfds.builder_cls("imagenet2012_corrupted").BUILDER_CONFIGS}
    names = {f"{name}_{severity}" for name in variants.corruptions() for severity in range(1, 6)}
    assert names <= known
    errors = list(variants.corruptions().values())
    assert np.mean(errors) == pytest.approx(0.789, abs=5e-4)  # unnormalized error of AlexNet


def test_corrupted_images_are_not_cropped_again():
    fractions = [
        held_out_preprocessing(DataConfig(source="tfds", name=name), 224).crop_fraction
        for name in ("imagenet2012_corrupted/fog_1", "imagenet2012")
    ]
    assert fractions == [1, 0.875]
