"""Shards: what the Model Garden reads of them, and in which order, is what the annotations say."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from official.vision.dataloaders.tf_example_decoder import TfExampleDecoder
from PIL import Image
from pycocotools.mask import decode
from support.damage import flip, full_disk
from support.detectors import change, check, edit, read_parts

from zoo.detection import coco, convert, shards

PARTS = ("train", "val")


def arguments(folder, output, **options):
    given = {f"{part}_images": folder / part for part in PARTS}
    given |= {f"{part}_annotations": folder / f"{part}.json" for part in PARTS}
    given |= {"output": output, **options}
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
    shapes = {number: image.shape for number, image in images.items()}
    assert shapes == dict.fromkeys((3, 5), (64, 64, 3))
    assert len(shards.read_images(shards.pattern(sharded, shards.TRAIN), most=4)) == 4


def test_command(drawn, tmp_path, capsys):
    """Test images have a quarter of the shards."""
    convert.main(arguments(drawn, tmp_path / "new", shards=9))
    printed = capsys.readouterr().out
    assert "3 categories with ids up to 3\n12 training images, 1 without objects" in printed
    names = [f"train-0000{i}-of-00009.tfrecord" for i in range(9)]
    names += [f"val-0000{i}-of-00002.tfrecord" for i in range(2)]
    found = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert found == ["dataset.json", *names, "val.json"]
    with pytest.raises(ValueError, match="output: expected a new folder"):
        convert.main(arguments(drawn, tmp_path / "new"))


def test_images_of_training_among_the_test_images_are_named(drawn, tmp_path, capsys):
    """By their contents, whatever their names; not if they differ in one byte."""
    val = Path(shutil.copytree(drawn / "val", tmp_path / "val"))
    (first, second, *_), train = sorted(val.iterdir()), sorted((drawn / "train").iterdir())[4]
    first.write_bytes(train.read_bytes())
    second.write_bytes(train.read_bytes() + b"\0")
    convert.main(arguments(drawn, tmp_path / "new", val_images=val))
    line = "warning: 1 of 12 test images are in training, too, which makes AP look "
    assert re.search(rf"{line}.*{first.name} = .*{train.name}\n", capsys.readouterr().err)
    assert (tmp_path / "new").is_dir()
    convert.main(arguments(drawn, tmp_path / "newer"))
    assert "warning" not in capsys.readouterr().err


def part(categories, *used):
    """Annotations with an image, and an object of each of the used categories."""
    names = dict(enumerate(categories.split(), start=1))
    numbers = {name: number for number, name in names.items()}
    found = [{"image_id": 7, "category_id": numbers[name]} for name in used]
    return coco.Annotations(Path(), names, [{"id": 7, "file_name": ""}], {7: found})


CAT, CAT_DOG = {1: "cat"}, {1: "cat", 2: "dog"}


@pytest.mark.parametrize(
    ("train", "val", "categories", "used"),
    [
        (part("cat dog", "cat", "dog"), part("cat dog", "dog"), CAT_DOG, [2]),
        (part("cat dog", "cat"), part("cat dog", "dog"), CAT_DOG, [2]),
        (part("cat dog", "cat"), part("dog", "dog"), CAT_DOG, [2]),
        (part("cat dog cow", "cow"), part("cow cat", "cow", "cat"), CAT | {3: "cow"}, [3, 1]),
        (part("cat dog", "dog"), part("dog cat", "dog"), {2: "dog"}, [2]),
        (part("cat", "cat"), part("cow cat", "cat"), CAT, [1]),
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


def edited(drawn, tmp_path, change, part="val"):
    """A changed copy of annotations."""
    content = json.loads((drawn / f"{part}.json").read_text())
    change(content)
    (tmp_path / "wrong.json").write_text(json.dumps(content))
    return tmp_path / "wrong.json"


def of_a_star(content):
    edit(content, "annotations/0", category_id=4)
    content["categories"].append({"id": 4, "name": "star"})


OTHER = "the same categories in both files.*"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change("annotations/0", category_id=4), r"expected a category .*category_id=4"),
        (of_a_star, f"{OTHER}Received: 4 'star' in that of the test images only"),
        (change("categories/0", name="circle"), f"{OTHER}1 'circle'"),
    ],
)
def test_nothing_is_written_where_something_is_wrong(drawn, tmp_path, change, message):
    wrong = edited(drawn, tmp_path, change)
    with pytest.raises(ValueError, match=message):
        convert.main(arguments(drawn, tmp_path / "new", val_annotations=wrong))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("count", "room"), [(1, 100), (101, 101)])
def test_room_for_objects_and_ids_of_the_file(tmp_path, capsys, count, room):
    """Of a training image with some objects, a test image with one; no more shards than images."""
    Image.new("RGB", (200, 100)).save(tmp_path / "1.png")
    for part, number in (("train", count), ("val", 1)):
        boxes = [[i % 190, i // 190, 5, 5] for i in range(number)]
        objects = [{"image_id": 1, "category_id": 20000, "bbox": box} for box in boxes]
        content = {"images": [{"id": 1, "file_name": "1.png"}], "annotations": objects}
        content |= {"categories": [{"id": 20000, "name": "a"}]}
        (tmp_path / f"{part}.json").write_text(json.dumps(content))
    folder, images = tmp_path / "new", {f"{part}_images": tmp_path for part in PARTS}
    convert.main(arguments(tmp_path, folder, **images))
    dataset = shards.Dataset.read(folder)
    assert (dataset.most_objects, dataset.file_ids) == (room, {1: 20000})
    line = "1 images have more than 100 objects: training, detection and AP have room for 101 in"
    assert (line in capsys.readouterr().out) == (count > 100)
    files = sorted(path.name for path in folder.glob("*.tfrecord"))
    assert files == [f"{part}-00000-of-00001.tfrecord" for part in PARTS]


@pytest.mark.parametrize("lacking", ["neither", *PARTS])
def test_masks_are_those_of_training(drawn, tmp_path, capsys, lacking):
    """Test images need them if training has them, and lose them if it has none, or by a setting."""
    options = {"masks": "false"}
    if lacking != "neither":
        boxes = edited(drawn, tmp_path, change("annotations", segmentation=...), lacking)
        options = {f"{lacking}_annotations": boxes}
    given = arguments(drawn, tmp_path / "new", **options)
    if lacking == "val":
        with pytest.raises(ValueError, match=r"expected polygons, or an RLE .*boxes alone"):
            convert.main(given)
        return
    convert.main(given)
    assert "boxes alone: Faster R-CNN" in capsys.readouterr().out
    assert not shards.Dataset.read(tmp_path / "new").masks
    assert count(check(tmp_path / "new", shards.TEST)) == 12
    text = (tmp_path / "new" / "val.json").read_text()
    assert '"bbox"' in text
    assert "segmentation" not in text


def test_files_that_change_while_they_are_converted(tmp_path):
    Image.new("RGB", (20, 10)).save(tmp_path / "1.png")
    content = (tmp_path / "1.png").read_bytes()
    assert convert.as_trained(content, (10, 20)) == content
    with pytest.raises(ValueError, match="expected an image of 10 x 20 pixels; the file has chang"):
        convert.as_trained(content, (20, 10))


SHARD_DAMAGE = {
    "empty": (lambda path: path.write_bytes(b""), "expected the 12 train .* Received: 6 in 2"),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-9]), "train-.*(truncated|corrupt)"),
    "garbage": (lambda path: path.write_bytes(b"garbage " * 99), "train-0.*corrupted record at 0"),
    "missing": (lambda path: path.unlink(), "Received: 6 in 1 shards"),
    "flipped bit": (flip, "train-00000.*corrupted record"),
}


@pytest.mark.parametrize(("damage", "message"), SHARD_DAMAGE.values(), ids=SHARD_DAMAGE)
def test_damaged_shards(sharded, tmp_path, damage, message):
    folder = Path(shutil.copytree(sharded, tmp_path / "copy"))
    assert count(check(folder, shards.TRAIN)) == 12
    damage(folder / "train-00000-of-00002.tfrecord")
    with pytest.raises(ValueError, match=rf"^data\.dir: .*{message}"):
        check(folder, shards.TRAIN)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"categories": {1: "disc", 2: "square"}}, "category 3, which dataset.json does not name"),
        ({"masks": True}, "objects without masks, which dataset.json promises"),
    ],
)
def test_shards_that_are_not_as_described(drawn, tmp_path, change, message):
    convert.write(*read_parts(drawn, masks=False), tmp_path / "new", 2)
    dataset = shards.Dataset.read(tmp_path / "new").model_copy(update=change)
    with pytest.raises(ValueError, match=message):
        shards.check(tmp_path / "new", dataset, shards.TEST)


@pytest.mark.parametrize("size", [(1, 128), (128, 1), (1, 10**6)])
def test_images_of_which_nothing_is_left(sharded, size):
    shards.check_shape(1, 127, 64)  # as the Model Garden rounds, a pixel is left
    with pytest.raises(ValueError, match=r"expected images less than 128 times as long as wide"):
        shards.check_shape(*size, 64)
    with pytest.raises(ValueError, match=r"tfrecord \(expected images less than 1 times"):
        check(sharded, shards.TEST, image_size=0.5)


CATEGORIES = "other categories than in dataset.json"
NO_HEIGHT = "expected height and width in pixels .1, such as image 0: height=None"
WRONG = {
    "nothing": (lambda content: content.clear(), "images: Field required"),
    "no image": (lambda content: content["images"].pop(0), "11 images, which are not the 12 of"),
    "another": (change("images/0", id=99), "12 images, which are not the"),
    "no category": (lambda content: content["categories"].pop(0), CATEGORIES),
    "other name": (change("categories/0", name="x"), CATEGORIES),
    "no height": (change("images/0", height=...), NO_HEIGHT),
    "no area": (change("annotations/0", area="x"), "area comp.*object 1"),
    "no mask": (change("annotations/0", segmentation=...), "RLE .*object 1"),
}


@pytest.mark.parametrize(("change", "message"), WRONG.values(), ids=WRONG)
def test_annotations_that_are_not_of_the_shards(sharded, truth, tmp_path, change, message):
    folder = Path(shutil.copytree(sharded, tmp_path / "copy"))
    dataset, ids = shards.Dataset.read(folder), check(folder, shards.TEST)
    path = folder / "val.json"
    assert shards.read_annotations(folder, dataset, ids)["images"] == truth["images"]
    change(truth)
    texts = ((json.dumps(truth), message), ("", "an empty file"), ("{", "Invalid JSON"))
    for text, reason in (*texts, (None, "not found")):
        path.unlink() if text is None else path.write_text(text)
        with pytest.raises(ValueError, match=f"the annotations of the test images.*{reason}"):
            shards.read_annotations(folder, dataset, ids)


def test_categories_get_the_ids_of_the_detector(sharded):
    """By their names, whatever ids the shards have."""
    dataset = shards.Dataset.read(sharded)
    ids = check(sharded, shards.TEST)
    own = shards.read_annotations(sharded, dataset, ids)
    numbers = {7: "square", 2: "disc", 1: "triangle", 5: "star"}
    found = shards.read_annotations(sharded, dataset, ids, numbers)
    new = {1: 2, 2: 7, 3: 1}
    expected = [new[one["category_id"]] for one in own["annotations"]]
    assert [one["category_id"] for one in found["annotations"]] == expected
    assert {one["id"]: one["name"] for one in found["categories"]} == numbers


def test_full_disk(drawn, tmp_path):
    """Nothing is left."""
    with full_disk(100), pytest.raises(OSError, match=r"File too large.*new"):
        convert.main(arguments(drawn, tmp_path / "new"))
    assert list(tmp_path.iterdir()) == []
