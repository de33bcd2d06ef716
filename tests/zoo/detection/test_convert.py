"""Shards: what the Model Garden reads of them is what the annotations say."""

import json

import numpy as np
import pytest
import tensorflow as tf
from official.vision.dataloaders.tf_example_decoder import TfExampleDecoder

from zoo.detection import convert, shards
from zoo.detection.coco import decode_mask


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
            segmentation = one["segmentation"]
            runs = segmentation if one["iscrowd"] else segmentation[0]
            np.testing.assert_array_equal(mask.numpy(), decode_mask(runs, 64, 64))


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


def test_nothing_is_written_where_something_is_wrong(drawn, tmp_path):
    content = json.loads((drawn / "val.json").read_text())
    content["annotations"][0]["category_id"] = 4
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="received category_id=4"):
        convert.main(arguments(drawn, tmp_path / "new", val_annotations=wrong))
    content["categories"].append({"id": 4, "name": "star"})
    wrong.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"the same categories in both files.*4 'star'"):
        convert.main(arguments(drawn, tmp_path / "new", val_annotations=wrong))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "without dataset.json"),
        ("{", "expected an intact dataset.json"),
        ('{"categories": {}}', "expected an intact dataset.json"),
    ],
)
def test_folders_that_are_not_of_convert(tmp_path, text, message):
    if text is not None:
        (tmp_path / "dataset.json").write_text(text)
    with pytest.raises(ValueError, match=f"data.dir: .*{message}"):
        shards.Dataset.read(tmp_path)
