"""Times what feeds the networks, per core: `python -m zoo.benchmark data`."""

import io
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from statistics import median
from typing import TYPE_CHECKING, Any

from pydantic import Field

from zoo.benchmark.report import Column, Report, progress
from zoo.benchmark.settings import BenchmarkSettings, Rounds
from zoo.benchmark.timing import Run, Timing, time_in_turn
from zoo.cli.run import use_backend
from zoo.config import DataConfig

if TYPE_CHECKING:
    from zoo.data.pipeline import TrainingImages

# What 8 TPUv3 cores train in a second: LambdaResNet-50 at 160, bfloat16 (Tables 19 and 20).
TPU_V3_8 = 1024 / 0.089

NAME, RECORDS = "photographs", 512
PHOTO_SIZE, QUALITY = (500, 375), 95  # as most images of ImageNet

OURS, RANDAUGMENT = "decode + crop", "decode + crop + RandAugment"
PLAIN, KERAS = "plain TFDS pipeline", "decode + crop + keras.layers.RandAugment"

COLUMNS = (Column("images/s per core", "images_per_second"), Column("ratio", "ratio"))
CONVENTIONS = {
    "images": "the photographs china.jpg and flower.jpg of scikit-learn, made 500 x 375 and "
    "written in turn as JPEGs of quality 95 into files of TFDS; from these to preprocessed batches",
    OURS: "zoo.data, source tfds: of each JPEG the random crop alone is decoded; resized, flipped",
    RANDAUGMENT: "the same, and RandAugment of tf-models-official, 2 operations, magnitude 10",
    PLAIN: "tfds.load, which decodes whole images; then the same crop, resizing and flip",
    KERAS: "batches of zoo.data through keras.layers.RandAugment, 2 operations, which then changes "
    "all images of a batch alike",
    "randaugment_ms": "CPU time per image of each RandAugment without decode + crop",
    "tpu_v3_8": "images per second that 8 TPUv3 cores train with LambdaResNet-50 at 160 "
    "(1024 in 0.089 s, Table 20), and the cores that feed them at the rate with RandAugment",
    "images_per_second": "per core: images divided by seconds of CPU time of the whole process, "
    "median over the rounds, all pipelines in turn, one thread each; starting a pipeline is not "
    "counted",
    "ratio": "images per second divided by those of the first row",
}


class Config(BenchmarkSettings, cli_prog_name="python -m zoo.benchmark data"):
    """Times input pipelines per CPU core, from JPEGs in TFDS files to preprocessed batches.

    Ours with and without RandAugment, a plain pipeline on TFDS, and keras.layers.RandAugment. The
    images are two photographs of scikit-learn, again and again, in a temporary folder.
    """

    images: int = Field(default=256, ge=1, description="Images per pipeline and round.")
    size: int = Field(
        default=224, ge=8, le=2048, description="Height and width of the crops in pixels."
    )
    batch: int = Field(default=32, ge=1, le=RECORDS, description="Images per batch.")
    repeats: Rounds = 5


def run(config: Config, arguments: Sequence[str]) -> None:
    """Measures, prints and writes."""
    use_backend("tensorflow")
    packages = ("tensorflow", "tensorflow-datasets", "tf-models-official", "scikit-learn")
    report = Report(config, arguments, packages, CONVENTIONS)
    with tempfile.TemporaryDirectory() as folder:
        progress("writing photographs")
        write_photographs(folder)
        datasets = pipelines(folder, config)
        batches = -(-config.images // config.batch)
        computations = {name: cpu_time(dataset, batches) for name, dataset in datasets.items()}
        timings = time_in_turn(computations, config.repeats, 0.0)
    rows, times, tpu = summary(timings, batches * config.batch)
    report.content |= {"randaugment_ms": times, "tpu_v3_8": tpu}
    report.table("Input pipelines", "pipeline", COLUMNS, rows)
    print(
        f"RandAugment itself takes {times['ours']:.1f} ms per image, that of Keras "
        f"{times['keras']:.1f} ms, {times['ratio']:.1f} times as long."
    )
    print(
        f"A TPU v3-8 trains LambdaResNet-50 at 160 with {tpu['images_per_second']:,.0f} images/s: "
        f"{tpu['cores']:.1f} such cores feed it with RandAugment."
    )
    report.finish()


def write_photographs(folder: str) -> None:
    """Writes scikit-learn's two photographs, many times, as a data set of TFDS."""
    import tensorflow_datasets as tfds
    from PIL import Image
    from sklearn.datasets import load_sample_images

    encoded = []
    for pixels in load_sample_images().images:
        file = io.BytesIO()
        Image.fromarray(pixels).resize(PHOTO_SIZE).save(file, "JPEG", quality=QUALITY)
        encoded.append(file.getvalue())
    features = {
        "image": tfds.features.Image(encoding_format="jpeg"),
        "label": tfds.features.ClassLabel(num_classes=len(encoded)),
    }
    numbers = [i % len(encoded) for i in range(RECORDS)]
    examples = [(i, {"image": encoded[n], "label": n}) for i, n in enumerate(numbers)]
    tfds.disable_progress_bar()
    with redirect_stdout(io.StringIO()):  # TFDS says that it downloads them
        tfds.dataset_builders.store_as_tfds_dataset(
            NAME,
            "1.0.0",
            tfds.features.FeaturesDict(features),
            {"train": examples},
            data_dir=folder,
        )


def pipelines(folder: str, config: Config) -> dict[str, Any]:
    """Returns endless data sets of preprocessed batches, on one thread each."""
    import keras
    import tensorflow as tf

    from lambda_keras.applications import preprocess_input
    from zoo.data.load import load_data

    def ours(**settings) -> "TrainingImages":
        data = DataConfig(
            source="tfds",
            dir=folder,
            name=NAME,
            test_split="train",
            batch_size=config.batch,
            shuffle_buffer=config.batch,
            **settings,
        )
        return load_data(data, config.size).train

    layer = keras.layers.RandAugment(value_range=(0, 255), num_ops=2)

    def finish(images: Any, labels: Any, *_: Any) -> tuple[Any, Any]:
        return preprocess_input(images), tf.one_hot(labels, 2)

    def with_keras(images: Any, labels: Any, *_: Any) -> tuple[Any, Any]:
        return finish(layer(images, training=True), labels)

    datasets = {
        OURS: ours().batches(config.batch, 2),
        RANDAUGMENT: ours(randaugment_magnitude=10).batches(config.batch, 2),
        PLAIN: _plain(folder, config).map(finish).prefetch(tf.data.AUTOTUNE),
        KERAS: ours().examples(config.batch).batch(config.batch, True).map(with_keras),
    }
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.threading.max_intra_op_parallelism = 1
    return {name: dataset.with_options(options) for name, dataset in datasets.items()}


def _plain(folder: str, config: Config) -> Any:
    import tensorflow as tf
    import tensorflow_datasets as tfds

    def augment(example: dict[str, Any]) -> tuple[Any, Any]:
        image = example["image"]
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.shape(image),
            tf.zeros((1, 0, 4)),
            min_object_covered=0.0,
            area_range=(0.08, 1.0),
            aspect_ratio_range=(3 / 4, 4 / 3),
            use_image_if_no_bounding_boxes=True,
        )
        image = tf.image.resize(tf.slice(image, begin, size), (config.size, config.size))
        return tf.image.random_flip_left_right(image), example["label"]

    dataset: Any = tfds.load(NAME, data_dir=folder, split="train", shuffle_files=True)
    dataset = dataset.shuffle(config.batch).repeat().map(augment, tf.data.AUTOTUNE)
    return dataset.batch(config.batch)


def cpu_time(dataset: Any, batches: int) -> Callable[[], Run]:
    """Returns what `time_in_turn` asks for: CPU time of so many batches, starting not counted."""

    def run(calls: int) -> list[float]:
        iterator = iter(dataset)  # anew: while another is timed, this one shall not fetch ahead
        next(iterator)  # with which the pipeline starts
        start = time.process_time()  # to which other processes do not add
        for _ in range(calls * batches):
            next(iterator)
        return [(time.process_time() - start) / calls]

    return lambda: run


def summary(timings: Mapping[str, Timing], images: int) -> tuple[list[dict], dict, dict]:
    """Returns rows, times of RandAugment and what a TPU needs, from rounds of so many images."""
    rounds = {name: [images / s for s in timing.rounds] for name, timing in timings.items()}
    rates = {name: median(values) for name, values in rounds.items()}
    first = next(iter(rates.values()))
    rows = [
        {"pipeline": n, "images_per_second": rates[n], "ratio": rates[n] / first, "rounds": r}
        for n, r in rounds.items()
    ]
    ours, keras = (1e3 / rates[name] - 1e3 / rates[OURS] for name in (RANDAUGMENT, KERAS))
    times = {"ours": ours, "keras": keras, "ratio": keras / ours}
    return rows, times, {"images_per_second": TPU_V3_8, "cores": TPU_V3_8 / rates[RANDAUGMENT]}
