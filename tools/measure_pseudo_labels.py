"""Measures labeling (with Apache Beam) and selection, for docs/pseudo_labels.md.

python -m tools.measure_pseudo_labels label FOLDER
python -m tools.measure_pseudo_labels select FOLDER [IMAGES]
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

CLASSES, KNOWN, PER_RANGE = 1000, 1_331_167, 10_000  # KNOWN: ImageNet's training and test images
TWO = ["--beam", "direct_num_workers=2,direct_running_mode=multi_processing"]
RUNNERS = {"local": [], "direct": ["--runner", "direct"], "two": ["--runner", "direct", *TWO]}


def label(folder: Path) -> None:
    """Prints seconds, CPU seconds and images/s of a plain loop, and of each runner, in turn."""
    run = [sys.executable, "-m", "zoo.train", "--config", "lambda_resnet14_digits"]
    run += ["--model.image_size", "32", "--training.epochs", "6", "--output_dir", folder / "run"]
    subprocess.run(list(map(str, run)), check=True)
    _write_digits(folder)
    for name in ("plain", *RUNNERS):
        command = [sys.executable, "-m", "tools.measure_pseudo_labels", "plain", folder]
        if name != "plain":
            command = [sys.executable, "-m", "zoo.pseudo_label", "label", "--range_size", "100"]
            command += ["--teacher", folder / "run", "--input", f"{folder}/train-*"]
            command += ["--output", folder / name, *RUNNERS[name]]
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        printed = subprocess.run(
            list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        (rate,) = (line for line in printed.splitlines() if line.startswith("labeled "))
        print(f"{name}: {seconds:.0f} s, {cpu:.0f} CPU s; {rate}", flush=True)
    files = [
        {path.name: path.read_bytes() for path in (folder / name).glob("labels-*")}
        for name in RUNNERS
    ]
    assert files[0] == files[1] == files[2]
    print(f"all {len(files[0])} files are equal")


def _write_digits(folder: Path) -> None:
    import tensorflow as tf
    from sklearn.datasets import load_digits

    images = np.round(load_digits(return_X_y=True)[0] * 255 / 16).astype("uint8")
    for number in range(8):
        with tf.io.TFRecordWriter(str(folder / f"train-{number}")) as file:
            for image in images[number::8]:
                content = tf.io.encode_png(image.reshape(8, 8, 1)).numpy()
                values = tf.train.Feature(bytes_list=tf.train.BytesList(value=[content]))
                features = tf.train.Features(feature={"image/encoded": values})
                file.write(tf.train.Example(features=features).SerializeToString())


def plain(folder: Path) -> None:
    """Labels by a loop in Python that writes nothing."""
    from zoo.pseudo_label.inputs import find_ranges
    from zoo.pseudo_label.teacher import load_teacher

    teacher = load_teacher(str(folder / "run"))
    ranges = find_ranges(f"{folder}/train-*", 100, None, False)
    start, count = time.monotonic(), 0
    for part in ranges:
        pixels = [teacher.decode(content)[0] for content, _ in part.read()]
        for first in range(0, len(pixels), 64):
            batch = np.stack(pixels[first : first + 64])
            teacher.predict(np.pad(batch, [(0, 64 - len(batch)), (0, 0), (0, 0), (0, 0)]))
            count += len(batch)
    seconds = time.monotonic() - start
    print(f"labeled {count:,} images in {seconds:,.1f} s, {count / seconds:,.1f} images/s")


def select(folder: Path, images: int = 10_000_000, known: int = KNOWN) -> dict[str, float]:
    """Prints time and memory of a selection among synthetic scores, and checks it."""
    from zoo.pseudo_label.select import SelectConfig
    from zoo.pseudo_label.selection import EXCLUDED, KEPT, choose, start

    count = images // PER_RANGE
    per_class = images // CLASSES // 2
    work = start(
        SelectConfig(
            input=folder / "labels", output=folder / "selected", per_class=per_class, threshold=0.3
        ),
        _write_made_scores(folder / "labels", count),
    )
    rng = np.random.default_rng(count)
    sha256, hashes = _random_images(rng, known)
    shared = known // 100  # images to leave out that are among the labeled ones
    indices = [_index(number) for number in range(-(-shared // PER_RANGE))]
    sha256[:shared] = np.concatenate([index["sha256"] for index in indices])[:shared]
    work.scratch.mkdir()
    np.savez(work.scratch / EXCLUDED, sha256=sha256, perceptual_hash=hashes)
    begin = time.process_time()
    candidates = work.filter()
    filtered = time.process_time()
    choice = choose(candidates, per_class, copies=True)
    done = time.process_time()
    kept = candidates.counts[KEPT]
    assert candidates.counts[0].sum() == images
    assert (choice.selected == np.minimum(kept, per_class)).all()
    records = np.bincount(candidates.label, choice.records, minlength=CLASSES)
    assert (records == np.where(kept > 0, per_class, 0)).all()
    measured = {
        "images": images,
        "left_out": int(candidates.counts[2:4].sum()),
        "selected": int(choice.selected.sum()),
        "cpu_seconds_to_leave_out": filtered - begin,
        "cpu_seconds_of_the_order": done - filtered,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
    }
    print(json.dumps(measured, indent=1))
    return measured


def _write_made_scores(folder: Path, count: int):
    from zoo.data.pseudo_records import LABELS
    from zoo.pseudo_label.job import INDEX, Job

    folder.mkdir(parents=True)
    for number, index in enumerate(map(_index, range(count))):
        np.savez(folder / (LABELS.format(number, count) + INDEX), **index)
    return Job(
        teacher="made",
        class_names=tuple(map(str, range(CLASSES))),
        top_k=1,
        temperature=1,
        batch_size=1,
        input="made",
        ranges=({},) * count,
    )


def _index(number: int) -> dict[str, Any]:
    """Returns the index of a range, with classes of unequal size and a tenth of equal scores."""
    rng = np.random.default_rng(number)
    sha256, hashes = _random_images(rng, PER_RANGE)
    score = rng.uniform(0.1, 1, PER_RANGE).astype("float32")
    score[::10] = 0.75
    return {
        "label": (CLASSES * rng.beta(1.5, 1.5, PER_RANGE)).astype("int32"),
        "score": score,
        "sha256": sha256,
        "perceptual_hash": hashes,
        "unreadable": np.array([], "U"),
        "damaged": np.array([], "U"),
    }


def _random_images(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    hashes = rng.integers(-(2**63), 2**63, count, "int64")
    return rng.integers(0, 256, (count, 32), "uint8"), hashes


if __name__ == "__main__":
    name, place, *numbers = sys.argv[1:]
    Path(place).mkdir(parents=True, exist_ok=True)
    {"label": label, "plain": plain, "select": select}[name](Path(place), *map(int, numbers))
