"""Converts COCO's files to shards for training: `python -m zoo.detection.convert`."""

if __name__ == "__main__":  # before imports of packages that may be missing
    from zoo.cli.main import Verb

    raise SystemExit(Verb("detection.convert").run())

import json
import sys
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from zoo.cli.main import Verb
from zoo.cli.settings import Settings
from zoo.data.image_files import JPEG, to_jpeg_or_png
from zoo.detection import shards
from zoo.detection.coco import Annotations, Json, read, run_lengths
from zoo.errors import needs_extra, printable, require, some
from zoo.fields import LocalPath, OutputFolder
from zoo.files import atomic_write


class ConvertConfig(Settings):
    r"""Writes images and annotations in COCO's format as shards of TFRecord.

    Exports of Label Studio, Roboflow, CVAT, labelme, FiftyOne and pandas are read, with a line
    for each kind of change. Everything is checked first, as --unreadable says. The shards are those
    of TensorFlow's Model Garden. Example:

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
    """Images and objects with faults (unknown ids, missing or unreadable files) are named by kind.
    refuse: nothing is written; skip: they are left out."""
    masks: bool | None = None
    """Whether objects need masks (segmentation), for Mask R-CNN; false: boxes alone, for Faster
    R-CNN; None: if any training object has a mask."""


def run(config: ConvertConfig) -> None:
    """Checks the dataset and converts it."""
    if config.output.exists() and any(config.output.iterdir()):
        raise ValueError(f"output: expected a new folder. Received: {str(config.output)!r}")
    skip = config.unreadable == "skip"
    train = read(config.train_annotations, config.train_images, skip, config.masks)
    val = read(config.val_annotations, config.val_images, skip, train.masks)
    train, val = join(train, val)
    if twice := in_both(train, val):
        print(
            f"warning: {len(twice)} of {len(val.images)} test images are in training, too, which "
            f"makes AP look better than it is: {some(map(printable, twice))}",
            file=sys.stderr,
        )
    write(train, val, config.output, config.shards)
    count, last = len(train.categories), max(train.categories)
    gaps = f", {last - count} of which are unused" if last > count else ""
    print(f"{count} categories with ids up to {last}{gaps}")
    for name, part in (("training", train), ("test", val)):
        annotations = [annotation for objects in part.objects.values() for annotation in objects]
        empty = sum(not objects for objects in part.objects.values())
        crowds = sum(annotation["iscrowd"] for annotation in annotations)
        print(
            f"{len(part.images)} {name} images, {empty} without objects; "
            f"{len(annotations)} objects, {crowds} crowds"
        )
    counts = [len(objects) for part in (train, val) for objects in part.objects.values()]
    if many := [number for number in counts if number > shards.MOST_OBJECTS]:
        print(
            f"{len(many)} images have more than {shards.MOST_OBJECTS} objects: training, detection "
            f"and AP have room for {max(many)} in an image"
        )
    print("with masks: Mask R-CNN" if train.masks else "boxes alone: Faster R-CNN, without masks")
    print(f"wrote {printable(config.output)}")


def join(train: Annotations, val: Annotations) -> tuple[Annotations, Annotations]:
    """Renumbers the categories of both parts, matched by name, to the ids of the training part.

    Categories without objects are left out.
    """
    names = [
        {
            part.categories[annotation["category_id"]]
            for objects in part.objects.values()
            for annotation in objects
        }
        for part in (train, val)
    ]
    numbers = {name: i for i, name in train.categories.items() if name in names[0] | names[1]}
    unknown = [
        f"{i} {name!r}" for i, name in val.categories.items() if name in names[1] - {*numbers}
    ]
    expected = "expected the same categories in both files of annotations"
    require(not unknown, expected, f"{some(unknown)} in that of the test images only")
    unused = sorted({*train.categories.values(), *val.categories.values()} - {*numbers})
    if unused:
        left_out = some(f"{printable(name)!r}" for name in unused)
        print(f"categories without objects left out: {len(unused)}, {left_out}", file=sys.stderr)
    return train.renumbered(numbers), val.renumbered(numbers)


def in_both(train: Annotations, val: Annotations) -> list[str]:
    """Returns the test images whose files are also training images, by their contents."""
    known = {train.digests[image["file_name"]]: image["file_name"] for image in train.images}
    names = [image["file_name"] for image in val.images]
    return [
        f"{val.folder / name} = {train.folder / known[digest]}"
        for name in names
        if (digest := val.digests[name]) in known
    ]


def write(train: Annotations, val: Annotations, output: Path, train_shards: int) -> None:
    """Writes a folder of shards, all or nothing; test images take a quarter of `train_shards`."""
    counts = [len(objects) for part in (train, val) for objects in part.objects.values()]
    description = shards.Dataset(
        categories=dict(train.categories),
        file_ids=dict(train.file_ids),
        most_objects=max(shards.MOST_OBJECTS, *counts),
        train=_count(train),
        val=_count(val),
        masks=train.masks,
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
        import tensorflow as tf
        from official.vision.data import create_coco_tf_record, tfrecord_lib
        from rich.progress import track

    def example(image: Json) -> tuple[Any, int]:
        height, width, name, key = (image[k] for k in ("height", "width", "file_name", "id"))
        content = as_trained((part.folder / name).read_bytes(), (height, width))
        features = tfrecord_lib.image_info_to_feature_dict(
            height, width, name, key, content, "jpg" if content.startswith(JPEG) else "png"
        )
        objects = list(map(_for_converter, part.objects[key]))
        object_features, left_out = create_coco_tf_record.bbox_annotations_to_feature_dict(
            objects, height, width, part.categories, part.masks
        )
        return tf.train.Example(
            features=tf.train.Features(feature=features | object_features)
        ), left_out

    tfrecord_lib.write_tf_record_dataset(
        str(prefix),
        track(part.images, f"Writing {prefix.name}"),
        example,
        min(number, len(part.images)),
        multiple_processes=0,
        unpack_arguments=False,
    )


def as_trained(content: bytes, size: tuple[int, int]) -> bytes:
    """Returns a JPEG or PNG file that any decoder reads with the same pixels as prediction.

    Other formats, images with an EXIF rotation and transparent images become PNG; other files are
    unchanged.
    """
    import tensorflow as tf

    from zoo.data import crops

    content = to_jpeg_or_png(content)
    head = content[: crops.HEAD]
    turned = (b"Exif" in head or b"eXIf" in head) and crops.orientation(content) > 1
    if turned or tf.strings.regex_full_match(head, crops.TRANSPARENT):
        content = tf.io.encode_png(crops.decode(content)).numpy()
    if crops.check_header(content) != size:
        raise ValueError(f"expected an image of {size[1]} x {size[0]} pixels; the file has changed")
    return content


def _for_converter(annotation: Json) -> Json:
    """Replaces a crowd's mask by an uncompressed RLE, another object's by a list of one RLE."""
    if "segmentation" not in annotation:
        return annotation
    runs = {
        **annotation["segmentation"],
        "counts": run_lengths(annotation["segmentation"]["counts"]),
    }
    return {**annotation, "segmentation": runs if annotation["iscrowd"] else [runs]}


main = Verb("detection.convert")
