"""Shards: what the Model Garden reads of them is what the annotations say."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from official.vision.dataloaders.tf_example_decoder import TfExampleDecoder
from pycocotools.mask import decode

from zoo.detection import coco, convert, shards

PARTS = ("train", "val")


def arguments(drawn, output, **options):
    given = {
        "train_images": drawn / "train",
        "train_annotations": drawn / "train.json",
        "val_images": drawn / "val",
        "val_annotations": drawn / "val.json",
        "output": output,
        **options,
    }
    return [str(word) for key, value in given.items() for word in (f"--{key}", value)]


def count(ids):
    return sum(map(len, ids.values()))


def test_records_are_the_annotations(sharded, truth):
    decoder = TfExampleDecoder(include_mask=True)
    (file,) = sharded.glob("val-*.tfrecord")
    records = {
        int(found["source_id"].numpy()): found
        for found in map(decoder.decode, tf.data.TFRecordDataset(str(file)))
    }
    assert len(records) == len(truth["images"]) == 12
    for image in truth["images"]:
        objects = [one for one in truth["annotations"] if one["image_id"] == image["id"]]
        found = records[image["id"]]
        boxes = np.array([one["bbox"] for one in objects]).reshape(-1, 4)[:, [1, 0, 3, 2]]
        boxes[:, 2:] += boxes[:, :2]
        np.testing.assert_allclose(64 * found["groundtruth_boxes"], boxes, atol=1e-4)
        classes = [one["category_id"] for one in objects]
        assert found["groundtruth_classes"].numpy().tolist() == classes
        crowds = [bool(one["iscrowd"]) for one in objects]
        assert found["groundtruth_is_crowd"].numpy().tolist() == crowds
        for mask, one in zip(found["groundtruth_instance_masks"], objects, strict=True):
            np.testing.assert_array_equal(mask.numpy(), decode(one["segmentation"]))


def test_description(sharded):
    dataset = shards.Dataset.read(sharded)
    assert dataset.categories == {1: "disc", 2: "square", 3: "triangle"}
    assert dataset.train.images == dataset.val.images == 12
    images = shards.read_images(shards.pattern(sharded, shards.TEST), ids={3, 5})
    assert {number: image.shape for number, image in images.items()} == {
        3: (64, 64, 3),
        5: (64, 64, 3),
    }
    assert len(shards.read_images(shards.pattern(sharded, shards.TRAIN), most=4)) == 4


def test_command(drawn, tmp_path, capsys):
    convert.main(arguments(drawn, tmp_path / "new", shards=3))
    printed = capsys.readouterr().out
    assert "3 categories with ids up to 3\n12 training images, 1 without objects" in printed
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == [
        "dataset.json",
        *(f"train-0000{i}-of-00003.tfrecord" for i in range(3)),
        "val-00000-of-00001.tfrecord",
        "val.json",
    ]
    with pytest.raises(ValueError, match="output: expected a new folder"):
        convert.main(arguments(drawn, tmp_path / "new"))


def test_images_of_training_among_the_test_images_are_named(drawn, tmp_path, capsys):
    """By their contents, whatever their names; not if they differ in one byte."""
    val = Path(shutil.copytree(drawn / "val", tmp_path / "val"))
    content = json.loads((drawn / "val.json").read_text())
    first, second, *_ = [one["file_name"] for one in content["images"]]
    train = json.loads((drawn / "train.json").read_text())["images"][4]["file_name"]
    (val / first).write_bytes((drawn / "train" / train).read_bytes())
    (val / second).write_bytes((drawn / "train" / train).read_bytes() + b"\0")
    convert.main(arguments(drawn, tmp_path / "new", val_images=val))
    line = f"warning: 1 of 12 test images are in training, too, which makes AP look .*{first} = "
    assert re.findall(f"{line}.*{train}\n", capsys.readouterr().err)
    assert (tmp_path / "new").is_dir()
    convert.main(arguments(drawn, tmp_path / "newer"))
    assert "warning" not in capsys.readouterr().err


def part(categories, *used):
    """Annotations with an image, and an object of each of the used categories."""
    names = dict(enumerate(categories.split(), start=1))
    numbers = {name: number for number, name in names.items()}
    found = [{"image_id": 7, "category_id": numbers[name]} for name in used]
    return coco.Annotations(Path(), names, [{"id": 7, "file_name": ""}], {7: found})


@pytest.mark.parametrize(
    ("train", "val", "categories", "used"),
    [
        (part("cat dog", "cat", "dog"), part("cat dog", "dog"), {1: "cat", 2: "dog"}, [2]),
        (part("cat dog", "cat"), part("cat dog", "dog"), {1: "cat", 2: "dog"}, [2]),
        (part("cat dog", "cat"), part("dog", "dog"), {1: "cat", 2: "dog"}, [2]),
        (part("cat dog cow", "cow"), part("cow cat", "cow", "cat"), {1: "cat", 3: "cow"}, [3, 1]),
        (part("cat dog", "dog"), part("dog cat", "dog"), {2: "dog"}, [2]),
        (part("cat", "cat"), part("cow cat", "cat"), {1: "cat"}, [1]),
    ],
)
def test_categories_are_those_of_objects_by_the_ids_of_training(train, val, categories, used):
    """A category of the test images counts if training lists it, with objects or without."""
    found = convert.join(train, val)
    assert [one.categories for one in found] == [categories, categories]
    assert [one["category_id"] for one in found[1].objects[7]] == used
    for before, after in zip((train, val), found, strict=True):
        for one, other in zip(before.objects[7], after.objects[7], strict=True):
            assert before.categories[one["category_id"]] == categories[other["category_id"]]


def test_categories_that_training_does_not_list_are_refused():
    with pytest.raises(ValueError, match=r"Received: 1 'cow' in that of the test images only"):
        convert.join(part("cat", "cat"), part("cow cat", "cow", "cat"))


def test_nothing_is_written_where_something_is_wrong(drawn, tmp_path):
    content = json.loads((drawn / "val.json").read_text())
    content["annotations"][0]["category_id"] = 4
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"expected a category .*category_id=4"):
        convert.main(arguments(drawn, tmp_path / "new", val_annotations=wrong))
    content["categories"].append({"id": 4, "name": "star"})
    wrong.write_text(json.dumps(content))
    with pytest.raises(
        ValueError, match=r"the same categories in both files.*4 'star' in that of the test images"
    ):
        convert.main(arguments(drawn, tmp_path / "new", val_annotations=wrong))
    content["categories"] = json.loads((drawn / "val.json").read_text())["categories"]
    content["categories"][0]["name"] = "circle"  # as many as before
    wrong.write_text(json.dumps({**content, "annotations": content["annotations"][1:]}))
    with pytest.raises(ValueError, match=r"the same categories in both files.*1 'circle'"):
        convert.main(arguments(drawn, tmp_path / "new", val_annotations=wrong))
    assert not (tmp_path / "new").exists()


def test_boxes_alone(drawn, tmp_path, capsys):
    convert.main(arguments(drawn, tmp_path / "new", masks="false"))
    assert "boxes alone: Faster R-CNN" in capsys.readouterr().out
    dataset = shards.Dataset.read(tmp_path / "new")
    assert not dataset.masks
    assert count(shards.check(tmp_path / "new", dataset, shards.TEST)) == 12
    text = (tmp_path / "new" / "val.json").read_text()
    assert '"bbox"' in text
    assert "segmentation" not in text


def copied(sharded, tmp_path):
    return Path(shutil.copytree(sharded, tmp_path / "copy"))


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(b""), "expected the 12 train images .* Received: 6 in 2"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "train-00000.*(truncated|corrupt)"),
        (lambda path: path.write_bytes(b"garbage " * 99), "train-00000.*corrupted record at 0"),
        (lambda path: path.unlink(), "Received: 6 in 1 shards"),
        (flip, "train-00000.*corrupted record"),
    ],
    ids=["empty", "cut off", "garbage", "missing", "flipped bit"],
)
def test_damaged_shards(sharded, tmp_path, damage, message):
    folder = copied(sharded, tmp_path)
    dataset = shards.Dataset.read(folder)
    assert count(shards.check(folder, dataset, shards.TRAIN)) == 12
    damage(folder / "train-00000-of-00002.tfrecord")
    with pytest.raises(ValueError, match=rf"^data\.dir: .*{message}"):
        shards.check(folder, dataset, shards.TRAIN)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"categories": {1: "disc", 2: "square"}}, "category 3, which dataset.json does not name"),
        ({"masks": True}, "objects without masks, which dataset.json promises"),
    ],
)
def test_shards_that_are_not_as_described(drawn, tmp_path, change, message):
    parts = (coco.read(drawn / f"{part}.json", drawn / part, masks=False) for part in PARTS)
    convert.write(*parts, tmp_path / "new", 2)
    dataset = shards.Dataset.read(tmp_path / "new").model_copy(update=change)
    with pytest.raises(ValueError, match=message):
        shards.check(tmp_path / "new", dataset, shards.TEST)


@pytest.mark.parametrize("size", [(1, 128), (128, 1), (1, 10**6)])
def test_images_of_which_nothing_is_left(sharded, size):
    shards.check_shape(1, 127, 64)  # as the Model Garden rounds, a pixel is left
    with pytest.raises(ValueError, match=r"expected images less than 128 times as long as wide"):
        shards.check_shape(*size, 64)
    with pytest.raises(ValueError, match=r"tfrecord \(expected images less than 1 times"):
        shards.check(sharded, shards.Dataset.read(sharded), shards.TEST, image_size=0.5)


def without(name):
    def change(content):
        del content[name][0]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.clear(), "images: Field required"),
        (without("images"), "11 images, which are not the 12 of the shards"),
        (lambda content: content["images"][0].update(id=99), "12 images, which are not the 12"),
        (without("categories"), "other categories than in dataset.json"),
        (
            lambda content: content["images"][0].pop("height"),
            "expected height and width in pixels .1, such as image 0: height=None",
        ),
        (lambda content: content["annotations"][0].update(area="x"), "area computed .*object 1"),
        (
            lambda content: content["annotations"][0].pop("segmentation"),
            "expected polygons, or an RLE .*object 1",
        ),
    ],
    ids=["nothing", "no image", "another", "no category", "no height", "no area", "no mask"],
)
def test_annotations_that_are_not_of_the_shards(sharded, tmp_path, change, message):
    folder = copied(sharded, tmp_path)
    dataset = shards.Dataset.read(folder)
    ids = shards.check(folder, dataset, shards.TEST)
    path = folder / "val.json"
    content = json.loads(path.read_text())
    assert shards.read_annotations(folder, dataset, ids)["images"] == content["images"]
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f"the annotations of the test images.*{message}"):
        shards.read_annotations(folder, dataset, ids)
    for text, reason in (("", "an empty file"), ("{", "Invalid JSON"), (None, "not found")):
        path.unlink() if text is None else path.write_text(text)
        with pytest.raises(ValueError, match=f"the annotations of the test images.*{reason}"):
            shards.read_annotations(folder, dataset, ids)


def test_full_disk(drawn, tmp_path, monkeypatch):
    """TensorFlow's error in place of the operating system's; nothing is left."""

    def full(*_, **__):
        raise tf.errors.ResourceExhaustedError(None, None, "train-0; No space left on device")

    monkeypatch.setattr("official.vision.data.tfrecord_lib.write_tf_record_dataset", full)
    with pytest.raises(OSError, match=r"No space left on device.*new"):
        convert.main(arguments(drawn, tmp_path / "new"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "without dataset.json"),
        ("{", "expected an intact dataset.json"),
        ('{"categories": {}}', "expected an intact dataset.json"),
        ('{"categories": {"1000000000000": "a"}}', r"dataset.json \(categories.* to 10000"),
        ('{"categories": {"-1": "a"}}', "greater than or equal to 1"),
    ],
)
def test_folders_that_are_not_of_convert(tmp_path, text, message):
    if text is not None:
        (tmp_path / "dataset.json").write_text(text)
    with pytest.raises(ValueError, match=f"data.dir: .*{message}"):
        shards.Dataset.read(tmp_path)
