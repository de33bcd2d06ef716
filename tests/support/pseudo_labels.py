"""Small folders of selected pseudo-labeled images, as `zoo.pseudo_label select` writes them."""

import io
from pathlib import Path

import numpy as np
import tensorflow as tf
from PIL import Image

from zoo.data.pseudo_records import SELECTED, SELECTION, PseudoLabel, SelectedFile, Selection
from zoo.files import write_json

# Settings of a job of `zoo.pseudo_label label`.
JOB = {"top_k": 10, "temperature": 1.0, "batch_size": 4, "input": "", "ranges": ()}


def png(pixels: np.ndarray) -> bytes:
    """Encodes uint8 pixels `(height, width, 3)`."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def label_files(folder: Path) -> dict[str, bytes]:
    """Contents of the files with the labels of a job."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("labels-*"))}


def write_selection(folder: Path, images, probabilities, class_names, shards: int = 3) -> Selection:
    """Writes images, uint8 `(n, height, width, 3)`, with probabilities `(n, classes)`."""
    folder.mkdir(parents=True)
    order = np.argsort(-probabilities, axis=1, kind="stable")
    files = []
    for number in range(shards):
        name = SELECTED.format(number, shards)
        chosen = range(number, len(images), shards)
        with tf.io.TFRecordWriter(str(folder / name)) as writer:
            for i in chosen:
                sorted_ = probabilities[i][order[i]]
                logs = np.log(np.maximum(sorted_, 1e-30))
                image = {"image": png(images[i]), "name": f"{i}.png", "sha256": bytes(32)}
                image |= {"perceptual_hash": i, "teacher": "teacher-0123456789ab", "rest": 0.0}
                found = {"classes": order[i], "log_probabilities": logs, "score": float(sorted_[0])}
                writer.write(PseudoLabel(**image, **found).serialize())
        size = (folder / name).stat().st_size
        files.append(SelectedFile(name=name, records=len(chosen), bytes=size))
    counts = tuple(np.bincount(order[:, 0], minlength=len(class_names)).tolist())
    kept = {"settings": {}, "counts_before": counts, "counts_after": counts, "left_out": {}}
    names, teacher = tuple(class_names), "teacher-0123456789ab"
    selection = Selection(class_names=names, teacher=teacher, files=tuple(files), **kept)
    write_json(folder / SELECTION, selection.model_dump(mode="json"))
    return selection
