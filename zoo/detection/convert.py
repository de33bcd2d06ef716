"""Converts COCO's files to shards for training: `python -m zoo.detection.convert`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from zoo.cli.run import run_command
from zoo.cli.settings import LocalPath, OutputFolder, Settings
from zoo.detection import shards
from zoo.detection.coco import Annotations, Json, read, run_lengths
from zoo.errors import needs_extra, printable
from zoo.files import atomic_write


class ConvertConfig(Settings, cli_prog_name="python -m zoo.detection.convert"):
    r"""Writes images and annotations in COCO's format as shards of TFRecord.

    Everything is checked first, as --unreadable says. The shards are written by the converter of
    TensorFlow's Model Garden. Example:

      python -m zoo.detection.convert --train_images coco/train2017 \
        --train_annotations coco/annotations/instances_train2017.json \
        --val_images coco/val2017 --val_annotations coco/annotations/instances_val2017.json \
        --output coco/shards --unreadable skip
    """

    train_images: LocalPath
    """Folder of the images to train on."""
    train_annotations: LocalPath
    """JSON file of their annotations."""
    val_images: LocalPath
    """Folder of the images to test on."""
    val_annotations: LocalPath
    """JSON file of their annotations."""
    output: OutputFolder
    """New folder of the shards."""
    shards: int = Field(default=32, ge=1, le=9999)
    """Files for the training images."""
    unreadable: Literal["refuse", "skip"] = "refuse"
    """Faulty images and objects (unknown, missing, unreadable, a box outside) are
    named; refuse: and nothing is written; skip: and left out."""
    masks: bool | None = None
    """Whether objects need masks (segmentation), for Mask R-CNN; false: boxes alone, for Faster
    R-CNN; None: if any training object has a mask."""


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then checks and converts."""
    config = ConvertConfig.from_command_line(arguments)
    if config.output.exists() and any(config.output.iterdir()):
        raise ValueError(f"output: expected a new folder. Received: {str(config.output)!r}")
    skip = config.unreadable == "skip"
    train = read(config.train_annotations, config.train_images, skip, config.masks)
    val = read(config.val_annotations, config.val_images, skip, train.masks)
    if train.categories != val.categories:
        differing = sorted(set(train.categories.items()) ^ set(val.categories.items()))
        raise ValueError(
            "expected the same categories in both files of annotations. Received: "
            f"{', '.join(f'{number} {name!r}' for number, name in differing[:5])} in one of them"
        )
    write(train, val, config.output, config.shards)
    count, last = len(train.categories), max(train.categories)
    gaps = f", {last - count} of which are unused" if last > count else ""
    print(f"{count} categories with ids up to {last}{gaps}")
    for name, part in (("training", train), ("test", val)):
        found = [one for objects in part.objects.values() for one in objects]
        empty = sum(not objects for objects in part.objects.values())
        crowds = sum(one["iscrowd"] for one in found)
        print(
            f"{len(part.images)} {name} images, {empty} without objects; "
            f"{len(found)} objects, {crowds} crowds"
        )
    print("with masks: Mask R-CNN" if train.masks else "boxes alone: Faster R-CNN, without masks")
    print(f"wrote {printable(config.output)}")


def write(train: Annotations, val: Annotations, output: Path, train_shards: int) -> None:
    """Writes a folder of shards, all or nothing; test images take a quarter of `train_shards`."""
    categories = dict(train.categories)
    description = shards.Dataset(
        categories=categories, train=_count(train), val=_count(val), masks=train.masks
    )
    with atomic_write(output) as folder:
        folder.mkdir()
        _write_shards(train, folder / shards.TRAIN, train_shards)
        _write_shards(val, folder / shards.TEST, max(1, train_shards // 4))
        (folder / shards.ANNOTATIONS).write_text(json.dumps(val.to_json()))
        (folder / shards.DESCRIPTION).write_text(description.model_dump_json(indent=1) + "\n")


def _count(part: Annotations) -> shards.Part:
    return shards.Part(images=len(part.images), objects=sum(map(len, part.objects.values())))


def _write_shards(part: Annotations, prefix: Path, number: int) -> None:
    with needs_extra("detection"):
        from official.vision.data import create_coco_tf_record, tfrecord_lib
        from rich.progress import track

    def example(image: Json) -> tuple[Any, int]:
        return create_coco_tf_record.create_tf_example(
            image,
            [str(part.folder)],
            bbox_annotations=list(map(_for_converter, part.objects[image["id"]])),
            id_to_name_map=part.categories,
            include_masks=part.masks,
        )

    tfrecord_lib.write_tf_record_dataset(
        str(prefix),
        track(part.images, f"Writing {prefix.name}"),
        example,
        min(number, len(part.images)),
        multiple_processes=0,
        unpack_arguments=False,
    )


def _for_converter(one: Json) -> Json:
    """Replaces a mask by an uncompressed RLE, or for a single object by a list of RLEs."""
    if "segmentation" not in one:
        return one
    runs = {**one["segmentation"], "counts": run_lengths(one["segmentation"]["counts"])}
    return {**one, "segmentation": runs if one["iscrowd"] else [runs]}


if __name__ == "__main__":
    run_command(main)
