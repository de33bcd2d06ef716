"""Small folders of selected pseudo-labeled images, as `zoo.pseudo_label select` writes them."""

import io
from pathlib import Path

import numpy as np
import tensorflow as tf
from PIL import Image

from zoo.data.pseudo_records import SELECTED, SELECTION, PseudoLabel, SelectedFile, Selection
from zoo.files import write_json


def png(pixels: np.ndarray) -> bytes:
    """Encodes uint8 pixels `(height, width, 3)`."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


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
                label = PseudoLabel(
                    image=png(images[i]),
                    name=f"{i}.png",
                    classes=order[i],
                    log_probabilities=np.log(np.maximum(sorted_, 1e-30)),
                    rest=0.0,
                    score=float(sorted_[0]),
                    teacher="teacher-0123456789ab",
                    sha256=bytes(32),
                    perceptual_hash=i,
                )
                writer.write(label.serialize())
        size = (folder / name).stat().st_size
        files.append(SelectedFile(name=name, records=len(chosen), bytes=size))
    counts = tuple(np.bincount(order[:, 0], minlength=len(class_names)).tolist())
    selection = Selection(
        class_names=tuple(class_names),
        teacher="teacher-0123456789ab",
        files=tuple(files),
        settings={},
        counts_before=counts,
        counts_after=counts,
        left_out={},
    )
    write_json(folder / SELECTION, selection.model_dump(mode="json"))
    return selection
