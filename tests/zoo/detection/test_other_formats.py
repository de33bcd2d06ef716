"""Files of other formats in place of COCO's objects: named as what they are, in one line."""

import json

import pytest
from PIL import Image

from zoo.detection import coco

IMAGES = [{"id": 1, "file_name": "1.jpg", "width": 20, "height": 10}]
CATEGORIES = [{"id": 1, "name": "cat"}]
PANOPTIC = {"image_id": 1, "file_name": "1.png", "segments_info": [{"id": 3, "category_id": 1}]}
CAPTION = {"image_id": 1, "id": 1, "caption": "A cat."}
KEYPOINTS = {"image_id": 1, "id": 1, "category_id": 1, "keypoints": [1, 2, 2], "num_keypoints": 1}


def lists(*annotations, **others):
    return {"images": IMAGES, "categories": CATEGORIES, "annotations": [*annotations], **others}


def without(key, content):
    return {name: value for name, value in content.items() if name != key}


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (lists(PANOPTIC), "panoptic segmentation (panopticapi's panoptic2detection"),
        (lists(PANOPTIC, PANOPTIC | {"bbox": None}), "panoptic segmentation"),
        (lists(CAPTION), "captions of images, without boxes"),
        (lists(CAPTION, categories=[]), "captions of images, without boxes"),
        (without("categories", lists(CAPTION)), "captions of images, without boxes"),
        (lists(KEYPOINTS), "keypoints without boxes"),
        (lists(KEYPOINTS | {"bbox": [], "segmentation": []}), "keypoints without boxes"),
        (without("annotations", lists()), "images without annotations"),
        ([{"image_id": 1, "category_id": 1, "score": 0.5, "bbox": [1, 2, 3, 4]}], "of detections"),
        ([{"image_id": 1, "caption": "A cat."}], "a list of captions"),
        ([{"id": 1, "data": {}, "annotations": []}], "Label Studio's own JSON"),
        ([], "a list, not images, annotations and categories"),
        ([1], "a list, not images, annotations and categories"),
        ({"shapes": [], "imagePath": "1.jpg"}, "labelme's own JSON"),
        ({"_via_img_metadata": {}}, "VIA's own JSON"),
        ("", "an empty file"),
        (" \n", "an empty file"),
        (b"PK\3\4\0", "an archive, to be unpacked first"),
        (b"\x1f\x8b\x08\0", "an archive, to be unpacked first"),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_json_of_other_kinds(tmp_path, content, what, skip, capsys):
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    path = tmp_path / "found.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    Image.new("RGB", (20, 10)).save(tmp_path / "1.jpg")
    with pytest.raises(ValueError, match=r"\Aexpected boxes or masks of objects") as found:
        coco.read(path, tmp_path, skip)
    assert f"Received: {str(path)!r}, " in str(found.value)
    assert what in str(found.value)
    assert "\n" not in str(found.value)
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("1.txt", "0 0.5 0.5 0.2 0.2\n", "text, as labels of YOLO"),
        ("data.yaml", "names: [cat]\n", "YAML, as of YOLO"),
        ("1.xml", "<annotation></annotation>", "XML, as of Pascal VOC"),
    ],
)
def test_labels_of_yolo_and_voc(tmp_path, name, content, what):
    """A file of them, or a folder, unless it has JSON files."""
    folder = tmp_path / "labels"
    folder.mkdir()
    (folder / name).write_text(content)
    with pytest.raises(ValueError, match=f"{name}', {what}$"):
        coco.read(folder / name, tmp_path)
    with pytest.raises(ValueError, match=f"labels', a folder of {what}$"):
        coco.read(folder, tmp_path)
    (folder / "coco.json").write_text("{}")
    with pytest.raises(ValueError, match=r"labels', a folder, with 'coco\.json'$"):
        coco.read(folder, tmp_path)


def test_objects_next_to_other_annotations_are_read(tmp_path):
    """COCO's keypoints have boxes; a caption among objects is one faulty object."""
    Image.new("RGB", (20, 10)).save(tmp_path / "1.jpg")
    path = tmp_path / "found.json"
    keypoints = KEYPOINTS | {"bbox": [1, 2, 3, 4], "area": 12}
    path.write_text(json.dumps(lists(keypoints)))
    assert len(coco.read(path, tmp_path).objects[1]) == 1
    path.write_text(json.dumps(lists(keypoints, CAPTION)))
    with pytest.raises(ValueError, match="--unreadable skip"):
        coco.read(path, tmp_path)
    assert len(coco.read(path, tmp_path, skip=True).objects[1]) == 1


def test_lvis_is_read_with_a_note_on_its_metric(tmp_path, capsys):
    Image.new("RGB", (20, 10)).save(tmp_path / "1.jpg")
    image = {
        "id": 1,
        "coco_url": "http://images.cocodataset.org/train2017/1.jpg",
        "neg_category_ids": [],
        "not_exhaustive_category_ids": [1],
    }
    box = {"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0}
    path = tmp_path / "lvis.json"
    path.write_text(json.dumps(lists(box, images=[image])))
    assert len(coco.read(path, tmp_path).objects[1]) == 1
    assert "images of LVIS, whose own AP " in capsys.readouterr().err
