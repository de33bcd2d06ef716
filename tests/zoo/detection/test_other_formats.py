"""Files of other formats in place of COCO's objects: named as what they are, in one line."""

import pytest
from PIL import Image
from support.detectors import read

from zoo.detection import coco

IMAGES = [{"id": 1, "file_name": "1.jpg", "width": 20, "height": 10}]
CATEGORIES = [{"id": 1, "name": "cat"}]
PANOPTIC = {"image_id": 1, "file_name": "1.png", "segments_info": [{"id": 3, "category_id": 1}]}
CAPTION = {"image_id": 1, "id": 1, "caption": "A cat."}
KEYPOINTS = {"image_id": 1, "id": 1, "category_id": 1, "keypoints": [1, 2, 2], "num_keypoints": 1}


@pytest.fixture
def folder(tmp_path):
    Image.new("RGB", (20, 10)).save(tmp_path / "1.jpg")
    return tmp_path


def lists(*annotations, **others):
    return {"images": IMAGES, "categories": CATEGORIES, "annotations": [*annotations], **others}


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (lists(PANOPTIC), "panoptic segmentation (panopticapi's panoptic2detection"),
        (lists(PANOPTIC, PANOPTIC | {"bbox": None}), "panoptic segmentation"),
        (lists(CAPTION), "captions of images, without boxes"),
        (lists(CAPTION, categories=[]), "captions of images, without boxes"),
        ({"images": IMAGES, "annotations": [CAPTION]}, "captions of images, without boxes"),
        (lists(KEYPOINTS), "keypoints without boxes"),
        (lists(KEYPOINTS | {"bbox": [], "segmentation": []}), "keypoints without boxes"),
        ({"images": IMAGES, "categories": CATEGORIES}, "images without annotations"),
        ([{"image_id": 1, "category_id": 1, "score": 0.5, "bbox": [1, 2, 3, 4]}], "of detections"),
        ([{"image_id": 1, "caption": "A cat."}], "a list of captions"),
        ([{"id": 1, "data": {}, "annotations": []}], "Label Studio's own JSON"),
        ([], "a list, not images, annotations and categories"),
        ([1], "a list, not images, annotations and categories"),
        ({"shapes": [], "imagePath": "1.jpg"}, "labelme's own JSON"),
        ({"_via_img_metadata": {}}, "VIA's own JSON"),
        (b"", "an empty file"),
        (b" \n", "an empty file"),
        (b"PK\3\4\0", "an archive, to be unpacked first"),
        (b"\x1f\x8b\x08\0", "an archive, to be unpacked first"),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_json_of_other_kinds(folder, content, what, skip, capsys):
    with pytest.raises(ValueError, match=r"\Aexpected boxes or masks of objects") as found:
        read(folder, content, skip)
    assert f"Received: {f'{folder}/annotations.json'!r}, " in str(found.value)
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


def test_objects_next_to_other_annotations_are_read(folder):
    """COCO's keypoints have boxes; a caption among objects is one faulty object."""
    keypoints = KEYPOINTS | {"bbox": [1, 2, 3, 4], "area": 12}
    assert len(read(folder, lists(keypoints)).objects[1]) == 1
    with pytest.raises(ValueError, match="--unreadable skip"):
        read(folder, lists(keypoints, CAPTION))
    assert len(read(folder, lists(keypoints, CAPTION), skip=True).objects[1]) == 1


def test_lvis_is_read_with_a_note_on_its_metric(folder, capsys):
    url = "http://images.cocodataset.org/train2017/1.jpg"
    image = {"id": 1, "coco_url": url, "neg_category_ids": [], "not_exhaustive_category_ids": [1]}
    box = {"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0}
    assert len(read(folder, lists(box, images=[image])).objects[1]) == 1
    assert "images of LVIS, whose own AP " in capsys.readouterr().err
