"""Times reading of training and test images on the CPU: `python -m zoo.benchmark data`."""

import io
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from zoo.backend import use_backend
from zoo.benchmark.report import Report
from zoo.benchmark.settings import BenchmarkSettings, Rounds
from zoo.benchmark.timing import Run, time_in_turn
from zoo.config import AUGMENTATIONS, DataConfig, TrainConfig
from zoo.fields import Count
from zoo.measurements import columns, print_table

ZOO, RIVALS = "zoo", ("torchvision", "timm")
WINDOWS, TEST = "windows and flips", "test images"
COLUMNS = columns("library", "cpu_ms", "images_per_second")
QUIET = 0.002  # CPU seconds in `POLL`, below which no thread reads ahead any more
POLL = 0.02

Read = Callable[[], int]  # reads as many images as were drawn, or some more, and counts them


class Config(TrainConfig, BenchmarkSettings):
    """Times the input pipeline of a training run on the CPU, with generated images.

    Settings are those of zoo.train, but a folder of generated JPEG or PNG files replaces
    data.source, data.dir and the like. Parts are added one after the other: reading of files,
    decoding with windows and flips, each augmentation, mixing with batches. Times are CPU time
    of all threads per image. If torchvision and timm are installed, their transforms are timed in
    turn. Images cached by --data.cache_gb are decoded before. Example:

      python -m zoo.benchmark data --config lambda_resnet50_i160_350ep --images_per_second 2900
    """

    width: int = Field(default=500, ge=16, le=10_000)
    """Width of the images in pixels; 500 is common in ImageNet."""
    height: int = Field(default=375, ge=16, le=10_000)
    """Height of the images in pixels."""
    file: Literal["jpeg", "png"] = "jpeg"
    """jpeg: in color, 80 KB for 500 x 375 pixels; png: gray."""
    images: Annotated[Count, Field(le=100_000)] = 256
    """Images to draw, and to read in each round."""
    images_per_second: float | None = Field(default=None, gt=0)
    """Images per second that a device trains on; prints how many cores read as many."""
    repeats: Rounds = 7


def run(config: Config) -> None:
    """Runs the benchmark, and prints and writes the results."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    # After TensorFlow, torchvision's import ends the process: both have an LLVM of their own.
    rivals = [] if "tensorflow" in sys.modules else [*filter(find_spec, RIVALS)]
    for library in rivals:
        import_module(library)
    use_backend("tensorflow")
    report = Report(config, ("tensorflow", "pillow", *rivals))
    with tempfile.TemporaryDirectory() as folder:
        draw(Path(folder), config)
        readers = dict(_zoo_readers(config, folder))
        for library in rivals:
            transforms = _torchvision(config) if library == "torchvision" else _timm(config)
            for name, steps in transforms.items():
                part = Path(folder) / ("val" if name == TEST else "train")
                readers[library, name] = _transforming(steps, sorted(part.rglob("*.*")))
        cases = {" ".join(key): partial(_cpu_time, read) for key, read in readers.items()}
        timings = time_in_turn(cases, config.repeats, 0)
    report.rows += [
        {
            "library": library,
            "part": part,
            "cpu_ms": 1e3 * timing.seconds,
            "rounds_ms": [1e3 * seconds for seconds in timing.rounds],
            "images_per_second": 1 / timing.seconds,
        }
        for (library, part), timing in zip(readers, timings.values(), strict=True)
    ]
    report.write()
    print_table("CPU time for an image", "part", COLUMNS, report.rows)
    if (wanted := config.images_per_second) is not None:
        *_, last, _ = (row for row in report.rows if row["library"] == ZOO)
        cores = math.ceil(wanted / last["images_per_second"])
        print(f"\n{wanted:,.0f} training images/s take {cores} cores like these")
    report.finish()


def draw(folder: Path, config: Config) -> None:
    """Writes the images, of two classes, into `train` and `val`."""
    import numpy as np
    from PIL import Image

    size, random = (config.width, config.height), np.random.default_rng(0)
    for number in range(config.images):
        # Large and small shapes, and grain.
        pixels = random.normal(0, 9, (*size[::-1], 3))
        for cells in (12, 90):
            coarse = random.integers(0, 256, (cells, cells, 3), "uint8")
            pixels += np.asarray(Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)) / 2
        image, kind = Image.fromarray(pixels.clip(0, 255).astype("uint8")), "abc"[number % 2]
        file = io.BytesIO()
        if config.file == "jpeg":
            image.save(file, "JPEG", quality=88)
        else:
            image.convert("L").save(file, "PNG")
        for split in ("train", "val"):
            path = folder / split / kind / f"{number}.{config.file}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.getvalue())


def parts(data: DataConfig) -> Iterator[tuple[str, DataConfig]]:
    """Yields the parts in order: name, and settings with this part and all before it."""
    plain = dict.fromkeys(set(AUGMENTATIONS) - {"shift"})
    settings = {**plain, "randaugment_layers": 2} if data.augment else {}
    flips = "shifts and flips" if data.shift else WINDOWS
    yield flips if data.augment else "decoding", _with(data, settings)
    wanted = {name: getattr(data, name) for name in AUGMENTATIONS if name in plain}
    for name, value in wanted.items():
        if value is not None:
            settings[name] = value
            if name == "randaugment_magnitude":
                settings["randaugment_layers"] = data.randaugment_layers
            yield f"+ {name.removesuffix('_magnitude')}", _with(data, settings)


def _with(data: DataConfig, settings: Mapping[str, Any]) -> DataConfig:
    return data.model_copy(update=dict(settings))


def _zoo_readers(config: Config, folder: str) -> Iterator[tuple[tuple[str, str], Read]]:
    """Yields the functions that read all images, by library and part."""
    import tensorflow as tf

    from zoo.data.load import load_data
    from zoo.devices import ONLY_HOST

    changes = {"source": "image_folder", "dir": folder, "name": None, "classes": None}
    size = min(config.data.batch_size, config.images)
    changes |= {"batch_size": size, "class_weights": None, "unreadable": "refuse"}
    changes |= {
        split: DataConfig.model_fields[split].default for split in ("train_split", "test_split")
    }
    changes["cache_gb"] = config.data.cache_gb or 0  # no cache by default, so that decoding counts
    data, pixels = _with(config.data, changes), config.model.size
    with redirect_stderr(io.StringIO()):  # hides the numbers of files
        every = [(name, load_data(settings, pixels)) for name, settings in parts(data)]
        undecoded = load_data(_with(data, {"cache_gb": 0}), pixels)
    records = undecoded.train.source.training(size, 0, ONLY_HOST, 0)
    read = tf.io.read_file
    files = records.unbatch().map(lambda record: read(record["image"]), tf.data.AUTOTUNE)
    count = config.images
    yield (ZOO, "files"), _reading(files.batch(size), size, count)
    for name, loaded in every:
        yield (ZOO, name), _reading(loaded.train.batches(size, 2, normalize=False), size, count)
    tests = every[0][1].test.batches(size, 2, normalize=False)
    yield (ZOO, TEST), _reading(tests.repeat(), size, count)


def _reading(batches: Any, size: int, count: int) -> Read:
    stream, calls = iter(batches), math.ceil(count / size)

    def read() -> int:
        for _ in range(calls):
            next(stream)
        return calls * size

    return read


def _torchvision(config: Config) -> dict[str, Callable[[Any], Any]]:
    """Returns torchvision's transforms of a Pillow image, without mixing, by part."""
    from torchvision.transforms import v2  # pyright: ignore[reportMissingImports]

    data, size = config.data, config.model.size
    steps: list[Any] = [v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip()]
    steps_by_part = {TEST: [v2.Resize(round(size / 0.875)), v2.CenterCrop(size)]}
    if data.augment and data.shift is None:
        steps_by_part[WINDOWS] = steps
        if data.randaugment_magnitude is not None:
            operations = v2.RandAugment(data.randaugment_layers, int(data.randaugment_magnitude))
            steps_by_part["+ randaugment"] = [*steps, operations]
    return {name: v2.Compose([*steps, v2.PILToTensor()]) for name, steps in steps_by_part.items()}


def _timm(config: Config) -> dict[str, Callable[[Any], Any]]:
    """Returns timm's transforms by part; RandAugment applies each operation at probability 0.5."""
    from timm.data import create_transform  # pyright: ignore[reportMissingImports]

    # As in timm's loader, which normalizes whole batches afterwards.
    create = partial(create_transform, config.model.size, use_prefetcher=True)
    data, transforms = config.data, {TEST: create()}
    if data.augment and data.shift is None:
        create = partial(create, is_training=True, color_jitter=None)
        transforms[WINDOWS] = create()
        if (magnitude := data.randaugment_magnitude) is not None:
            policy = f"rand-m{magnitude:.0f}-n{data.randaugment_layers}"
            transforms["+ randaugment"] = create(auto_augment=policy)
    return transforms


def _transforming(change: Callable[[Any], Any], paths: Sequence[Path]) -> Read:
    from PIL import Image

    def read() -> int:
        for path in paths:
            with Image.open(path) as image:
                change(image.convert("RGB"))
        return len(paths)

    return read


def _cpu_time(read: Read) -> Run:
    def run(_: int) -> list[float]:
        _wait_until_quiet()
        begin, images = time.process_time(), read()
        _wait_until_quiet()  # so that as much is read ahead as before
        return [(time.process_time() - begin) / images]

    return run


def _wait_until_quiet() -> None:
    """Waits for threads that read ahead, at most two seconds."""
    for _ in range(100):
        before = time.process_time()
        time.sleep(POLL)
        if time.process_time() - before < QUIET:
            return
