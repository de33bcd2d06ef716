"""COCO files in the manner of tools: what is understood, and what is said of it."""

import itertools
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote, unquote

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pycocotools import mask
from support import detectors
from support.detectors import change, check, edit, read, turned

from zoo.detection import coco, convert, normalize, report, shards
from zoo.detection.config import DetectionConfig
from zoo.detection.evaluate import with_file_ids
from zoo.detection.experiment import Task, create_experiment
from zoo.inference.images import read_pixels

WIDTH, HEIGHT = 64, 48
NAN = float("nan")


def draw(path, size=(WIDTH, HEIGHT), **options):
    rng = np.random.default_rng([*path.name.encode()])
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(rng.integers(0, 256, (*size[::-1], 3), "uint8")).save(path, **options)


BOXES = [[4, 6, 20, 12], [30, 8, 24, 30], [2, 3, 40, 20], [1, 1, 50, 40]]


def polygon(x, y, w, h):
    return [x, y, x + w, y, x + w, y + h, x, y + h]


def plain():
    """Two images with two objects each, as COCO has them; the last one is two rectangles."""
    parts = [[polygon(*box)] for box in BOXES[:3]] + [[[1, 1, 9, 1, 9, 9], polygon(20, 20, 31, 21)]]
    size = {"width": WIDTH, "height": HEIGHT}
    return {
        "images": [{"id": i, "file_name": f"{i}.jpg", **size} for i in (1, 2)],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
        "annotations": [
            {"id": i + 1, "image_id": 1 + i // 2, "category_id": 1 + i % 2, "bbox": [*box],
             "area": box[2] * box[3] - 1, "iscrowd": 0, "segmentation": parts[i]}
            for i, box in enumerate(BOXES)
        ],
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    for i in (1, 2):
        draw(tmp_path / "data" / "images" / f"{i}.jpg")
    return tmp_path / "data" / "images"


def written(folder, part):
    """The folder of shards of some annotations."""
    convert.write(part, part, folder.parent / "shards", 1)
    return folder.parent / "shards"


def ids(change_id, *names):
    """Changes the ids of lists, and what refers to them."""

    def apply(data):
        for name, key in (("images", "image_id"), ("categories", "category_id")):
            if name in names:
                edit(data, name, id=lambda one: change_id(one["id"]))
                edit(data, "annotations", **{key: lambda one, key=key: change_id(one[key])})

    return apply


def label_studio(data):
    data |= {"info": {"year": 2026, "contributor": "Label Studio"}, "licenses": None}
    ids(lambda number: number - 1, "images", "categories")(data)
    edit(data, "images", file_name=lambda one: f"images\\{one['file_name']}")
    edit(data, "annotations", segmentation=[], ignore=0, id=lambda one: one["id"] - 1)


def roboflow(data):
    data["categories"].insert(0, {"id": 0, "name": "cat", "supercategory": "none"})
    edit(data, "images", license=1, extra={"name": "x"}, date_captured="2026-01-01T00:00:00+00:00")


def cvat(data):
    data |= {"licenses": [{"name": "", "id": 0, "url": ""}], "info": {"version": ""}}
    edit(data, "images", license=0, flickr_url="", coco_url="", date_captured=0)
    edit(data, "annotations", attributes={"occluded": False, "rotation": 0.0})
    one = data["annotations"][0]
    one["segmentation"] = mask.frPyObjects(one["segmentation"], HEIGHT, WIDTH)[0]
    runs = coco.run_lengths(one["segmentation"]["counts"].decode())
    one["segmentation"] = {"size": [HEIGHT, WIDTH], "counts": runs}


def labelme(data):
    data |= {"type": "instances", "licenses": [{"url": None, "id": 0, "name": None}]}
    label_studio(data)
    data["categories"].append({"id": 7, "name": "_background_", "supercategory": None})
    edit(data, "images", file_name=lambda one: f"JPEGImages/{one['file_name'][-5:]}", url=None)
    for one, right in zip(data["annotations"], plain()["annotations"], strict=True):
        one["segmentation"] = right["segmentation"]


def fiftyone(data):
    ids(lambda number: number - 1, "categories")(data)
    edit(data, "images", file_name=lambda one: f"/home/me/data/{one['file_name']}", license=None)
    edit(data, "categories", supercategory=None)
    edit(data, "annotations", score=0.5, segmentation=...)


def pandas(data):
    ids(float, "images")(data)
    ids(str, "categories")(data)
    edit(data, "images", width=NAN, height=48.0, license=NAN)
    text = {key: lambda one, key=key: str(one[key]) for key in ("bbox", "segmentation")}
    edit(data, "annotations", area=NAN, iscrowd=0.0, **text)


TOOLS = {
    label_studio: ({1: "dog", 2: "cat"}, ["file_name matched by base name (2,", "numbered"]),
    roboflow: ({1: "cat", 2: "dog"}, ["unused categories with the id or name of another"]),
    cvat: ({1: "cat", 2: "dog"}, []),
    labelme: ({1: "dog", 2: "cat"}, ["left out: 1, '_background_'", "as '1.jpg'"]),
    fiftyone: ({1: "dog", 2: "cat"}, ["such as '/home/me/data/1.jpg' as '1.jpg'"]),
    pandas: (
        {1: "cat", 2: "dog"},
        ["sizes read from the files (2,", "bbox read as numbers (4,", "area computed from"],
    ),
}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.__name__)
def test_tools(folder, capsys, tool):
    """Objects are those of COCO's own form, and results have the ids of the file."""
    categories, notes = TOOLS[tool]
    data = plain()
    tool(data)
    found = read(folder, data)
    found, _ = convert.join(found, found)
    assert found.categories == categories
    expected = read(folder, plain(), masks=found.masks)

    def objects(part):
        return [
            [(part.categories[one["category_id"]], one["bbox"], one.get("segmentation"))
             for one in every] for every in part.objects.values()
        ]  # fmt: skip

    assert objects(found) == objects(expected)
    assert [len(every) for every in objects(found)] == [2, 2]
    said = capsys.readouterr().err
    assert all(note in said for note in notes), said
    place = written(folder, found)
    ids_of_shards = check(place, shards.TEST)
    truth = shards.read_annotations(place, shards.Dataset.read(place), ids_of_shards)
    keys = {"image_id", "category_id", "bbox", "segmentation"}
    own = truth["annotations"]
    perfect = [{key: one[key] for key in one.keys() & keys} | {"score": 1.0} for one in own]
    for kind in report.evaluate(truth, perfect, found.masks).figures.values():
        assert kind["AP"] == kind["AR"] == 100
    for name, key in (("images", "image_id"), ("categories", "category_id")):
        own, known = {one[key] for one in data["annotations"]}, {one["id"] for one in data[name]}
        assert {one[key] for one in with_file_ids(perfect, truth)} == own <= known


def add(name, /, **entry):
    return lambda data: data[name].append(entry)


def runs(note, *counts, size=(48, 64)):
    """The mask of the first object as an uncompressed RLE."""
    return first(note, segmentation={"size": size, "counts": counts})


def each_twice(data):
    """Every image again by another id and path, which half of the objects have."""
    again = {"id": lambda one: one["id"] + 100, "file_name": lambda one: f"./{one['file_name']}"}
    data["images"] += [one | {k: make(one) for k, make in again.items()} for one in data["images"]]
    for one in data["annotations"][1::2]:
        one["image_id"] += 100


AREA = "area computed from the mask or box "
FIRST_LOST = {"boxes": BOXES[1:], "area": 719}
POINTS = [[4, 6], [24, 6], [24, 18], [4, 18]]
BAD = [*plain()["annotations"][3]["segmentation"], [1, 2, 3, 4], [1] * 7, [NAN] * 6, None]


def crowds(value, note="such as iscrowd={!r}"):
    return change("annotations", iscrowd=value), note.format(value), {}


def file_name(name, note="as '1.jpg'", **values):
    return change("images/0", file_name=name, **values), note, {}


def far_ids(more):
    note = f"category_id numbered, results have the file's (2, such as {1 + more} as 1)"
    expected = {"category_ids": {number: int(number + more) for number in (1, 2)}}
    return ids(lambda one: one + more, "categories"), note, expected


def first(note, expected=None, **values):
    """A change of the first object."""
    return change("annotations/0", **values), note, expected or {}


POLYGONS, RLE = "as a list of polygons (1,", "RLE read as whole numbers (1,"
FROM_MASK, FROM_FILES = "bbox computed from the mask (1,", "sizes read from the files (2,"
FAR, NO_WIDTH = polygon(200, 200, 9, 9), {"masks": False, **FIRST_LOST}
WIDE = {"boxes": [[4, 6, 60, 12], *BOXES[1:]]}
CLIPPED = "boxes clipped at the edge of their image (1,"
UNKNOWN = {"fault": "the id of an image (1, such as object 1: image_id='x')", **FIRST_LOST}
LOST = {"fault": "file_name in the JSON) (1, such as image 1: ", "area": 799, "boxes": BOXES[2:]}


@pytest.mark.parametrize(
    ("apply", "note", "expected"),
    [
        (change("annotations", id=...), "", {}),
        first(AREA + "(1, such as object 1: area=0)", {"area": 240}, area=0),
        first(AREA + "(1,", {"area": 240}, area=-1),
        first(AREA + "(1,", {"area": 240}, area=[1200]),
        first("area read as a number (1,", {"area": 100}, area="100"),
        (change("annotations", area=1), AREA + "(4, such as object 1: area='1 of", {"area": 240}),
        (change("annotations", area=...), AREA + "(4,", {"area": 240}),
        (add("categories", id=9, name="cow"), "", {}),
        (add("categories", id=9, name="dog"), "unused categories with the id or name of", {}),
        first("", {"area": 7.5}, area=7.5),
        (change("annotations", iscrowd=...), "iscrowd read as 0 or 1 (4,", {}),
        crowds(None, "iscrowd read as 0 or 1 (4, such as iscrowd=N"),
        crowds(0.0, "iscrowd read as 0 or 1 (4, such as iscrowd=0.0"),
        *map(crowds, (False, "0")),
        (change("annotations", iscrowd=1), "all objects are crowds", {}),
        first("", iscrowd=1),
        *(first(f"such as iscrowd='{one}'", iscrowd=one) for one in ("True", "false", "1.0")),
        (change("annotations/3", segmentation=BAD), "parts of fewer than three points left", {}),
        first(POLYGONS, segmentation=polygon(4, 6, 20, 12)),
        first(POLYGONS, segmentation=POINTS),
        first(FROM_MASK, bbox=...),
        first(FROM_MASK, bbox=[0, 0, 0, 0]),
        first("bbox read as numbers (1,", bbox=["4", "6", "20.", "12"]),
        (change("images", width=0, height=0), FROM_FILES, {}),
        (change("images", width=-64), FROM_FILES, {}),
        (change("images", width=..., height=...), FROM_FILES, {}),
        (change("images", width=64.0), "width read as a whole number (2,", {}),
        runs("", 0, 10, 3062),
        runs(RLE, 0.0, 10.0, 3062.0),
        runs(RLE, "0", "10.0", 3062),
        runs(RLE, 0, 10, 3062, size=(48.0, 64.0)),
        first(RLE, segmentation=[{"size": [48, 64], "counts": [0.0, 10.0, 3062.0]}]),
        first("", bbox=[4.0, 6.0, 20.0, 12.0]),
        first("", {"area": 240}, area=240.0),
        (change("images", height="48"), "height read as a whole number (2,", {}),
        (add("categories", id=2, name="dog"), "repeated categories merged (1,", {}),
        (each_twice, "repeated images merged (2, such as image 101: 1.jpg)", {}),
        first(CLIPPED, {"boxes": [[0, 6, 24, 12], *BOXES[1:]], "area": 240}, bbox=[-10, 6, 34, 12]),
        first(CLIPPED, WIDE | {"area": 240}, bbox=[4, 6, 61.5, 12]),
        first("", WIDE, bbox=[4, 6, 61, 12]),  # by a pixel
        first("(1, such as object 1: bbox=[200", FIRST_LOST, bbox=[200, 6, 10, 10]),
        first("boxes without width or height left", NO_WIDTH, bbox=[3, 6, 0, 10], segmentation=[]),
        first("masks without pixels left out (1,", FIRST_LOST, segmentation=[FAR]),
        first("left out: expected the id of an image (1,", UNKNOWN, image_id="x"),
        file_name("https://a.org/b/1.jpg?x=2", "such as 'https://a.org/b"),
        file_name("/data/?d=somewhere/1%2ejpg", "file_name matched"),
        file_name("../../upload/3/ab12cd34-1.jpg"),
        file_name("C:\\data\\1.JPG"),
        file_name(None, coco_url="http://a.org/1.jpg"),
        (file_name("/else/7.jpg")[0], "objects of images that are left out (2,", LOST),
        (ids("a{}".format, "images"), "(2, such as 'a1' as 1)", {"image_ids": ["a1", "a2"]}),
        (ids(lambda i: -i, "images"), "(2, such as -1 as 1)", {"image_ids": [-1, -2]}),
        (ids(str, "images"), "(2, such as '1' as 1)", {"image_ids": ["1", "2"]}),
        (ids(float, "images"), "(2, such as 1.0 as 1)", {}),
        (ids(lambda i: -float(i), "images"), "(2, such as -1.0 as 1)", {"image_ids": [-1, -2]}),
        (ids("{}.0".format, "categories"), "'1.0' as 1", {"category_ids": {1: "1.0", 2: "2.0"}}),
        *map(far_ids, (10**12, 20000.0)),
    ],
)
def test_kinds(folder, capsys, apply, note, expected):
    """One note for each kind, with its count and an example; all else is as in COCO's form."""
    data = plain()
    apply(data)
    if "fault" in expected:
        with pytest.raises(ValueError, match=re.escape(expected["fault"])):
            read(folder, data)
    found = read(folder, data, skip="fault" in expected, masks=expected.get("masks"))
    lines = [one for one in capsys.readouterr().err.splitlines() if "annotations.json: " in one]
    assert any(note in line for line in lines) if note else not lines
    assert len(lines) == bool(note) + ("file_name in" in expected.get("fault", ""))
    objects = [one for image in found.images for one in found.objects[image["id"]]]
    assert [one["bbox"] for one in objects] == expected.get("boxes", BOXES)
    assert objects[0]["area"] == expected.get("area", 239)
    assert found.file_ids == expected.get("category_ids", {})
    own = [one["file_id"] for one in found.images if "file_id" in one]
    assert own == expected.get("image_ids", [])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_marks_of_windows_editors(folder, encoding):
    found = read(folder, json.dumps(plain()).encode(encoding))
    assert sum(map(len, found.objects.values())) == 4


def test_a_base_name_of_two_files_is_matched_by_its_folder_or_not(folder):
    for place in ("x", "y", "z/.ipynb_checkpoints"):
        draw(folder / place / "3.jpg")
    found = read(folder, edit(plain(), "images/0", file_name="/data/y/3.jpg"))
    assert found.images[0]["file_name"] == "y/3.jpg"
    with pytest.raises(ValueError, match=r"a base name that one file has.*'/data/3.jpg'"):
        read(folder, edit(plain(), "images/0", file_name="/data/3.jpg"))


@pytest.mark.parametrize("more", [0, 100])
def test_a_file_joined_to_itself_is_itself(folder, capsys, more):
    """Objects, too, stay once, whatever the ids of the second part."""
    expected, data = read(folder, plain()), plain()
    for name, keys in (("images", ["id"]), ("annotations", ["image_id", "id"])):
        data[name] += [one | {key: one[key] + more for key in keys} for one in data[name]]
    found = read(folder, data)
    assert found.to_json() == expected.to_json()
    said = capsys.readouterr().err
    assert "repeated images merged (2," in said
    assert "repeated objects of merged images left out (4," in said


def test_both_frames_of_a_photo_that_is_listed_twice(folder):
    """One entry is annotated as stored, the other upright."""
    draw(folder / "1.jpg", exif=turned(6))
    data = plain()
    data["images"].append({**data["images"][0], "id": 3, "height": WIDTH, "width": HEIGHT})
    box = [30, 4, 12, 20]
    edit(data, "annotations/1", image_id=3, bbox=box, segmentation=[polygon(*box)])
    (one, other), _ = read(folder, data).objects.values()
    assert one["bbox"] == other["bbox"] == box  # of the upright photo
    assert one["image_id"] == other["image_id"] == 1


def test_equal_files_are_named_and_stay_apart(folder, capsys):
    (folder / "2.jpg").write_bytes((folder / "1.jpg").read_bytes())
    assert len(read(folder, plain()).images) == 2
    note = "image files that are equal, each with its own objects (1, such as 2.jpg = 1.jpg)"
    assert note in capsys.readouterr().err


def touch(folder, files):
    for file in files:
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def find(folder, names):
    """The file of each name, and the names that have none."""
    faults = normalize.Findings()
    images = [{"id": number, "file_name": name} for number, name in enumerate(names)]
    found = normalize.find_files(images, folder, normalize.Findings(), faults)
    files = {names[one["id"]]: one["file_name"] for one in found}
    assert sum(count for count, _ in faults.values()) == len(names) - len(found)
    return {name: files.get(name) for name in names}


UPLOADED = "/data/upload/1/ab12cd34-1.jpg"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["set2/1.jpg"], {r"C:\d\set1\1.jpg": None, r"C:\d\set2\1.jpg": "set2/1.jpg"}),
        (["set2/1.jpg"], {"https://a.org/set1/1.jpg": None, "https://a.org/set2/1.jpg?x=2": 0}),
        (["set2/1.jpg"], {"/data/?d=set1/1.jpg": None, "/data/?d=set2%2f1.jpg": 0}),
        (["Set2/1.JPG"], {r"C:\d\set1\1.jpg": None, r"C:\d\set2\1.jpg": 0}),
        (["a/1.jpg", "b/1.jpg"], {r"a\1.jpg": 0, r"b\1.jpg": 1, r"c\1.jpg": None}),
        (["1.jpg"], {"/set1/1.jpg": None, "/set2/1.jpg": None}),
        (["1.jpg"], {"1.jpg": 0, "/set2/1.jpg": None, UPLOADED: None}),
        (["1.jpg"], {UPLOADED: 0}),
        (["1.jpg"], {UPLOADED: None, "/set2/1.jpg": 0}),
        (["1.jpg"], {UPLOADED: None, UPLOADED.replace("ab", "cd"): None}),
        (["a/1.jpg", "b/1.jpg"], {"/x/b/0123456789abcdef0123456789abcdef-1.jpg": 1}),
        (["1.jpg", "ab12cd34-1.jpg"], {UPLOADED: 1}),
        (["1.jpg", "a/ab12cd34-1.jpg", "b/ab12cd34-1.jpg"], {UPLOADED: None}),
        (["05-01.jpg"], {"/x/2021-05-01.jpg": None, "/x/05-01.jpg": 0}),
        (["05-01.jpg"], {"/x/2021-05-01.jpg": None}),
        (["1.jpg"], {"/x/20210501-1.jpg": None, "/x/01052021-1.jpg": None}),
        (["01.jpg"], {"/x/face-01.jpg": None, "/x/cafe-01.jpg": None}),
        (["1.jpg", "1.JPG"], {"/x/1.jpg": 0, "/y/1.JPG": 1, "/z/1.Jpg": None}),
        (["caf\u00e9/1.jpg", "b/1.jpg"], {"C:\\cafe\u0301\\1.jpg": 0}),
        (["1.jpg", "2.jpg"], {"https://a.org/view/1.jpg?file=2.jpg": None}),
        (["1.jpg", "sub/1.jpg"], {"1.jpg": 0, "/data/1.jpg": None, r"C:\sub\1.jpg": 1}),
    ],
)  # fmt: skip
def test_all_names_are_matched_at_once(tmp_path, files, expected):
    """A file goes to the name with the longest common end, or to none; in any order."""
    touch(tmp_path, files)
    wanted = {name: files[at] if type(at) is int else at for name, at in expected.items()}
    for names in itertools.permutations(wanted):
        assert find(tmp_path, names) == wanted


FORMS = (
    str,
    "C:\\data\\{}".format,
    lambda name: "D:\\" + name.replace("/", "\\"),
    "/home/me/{}".format,
    lambda name: f"https://a.org/b/{quote(name)}?x=2",
    lambda name: f"/data/local-files/?d={quote(name, safe='')}",
    lambda name: "/data/upload/{}ab12cd34-{}".format(*re.fullmatch("(.*/)?(.*)", name).groups("")),
)


BASES = ["1.jpg", "1.JPG", "05-01.jpg", "2021-05-01.jpg", "ab12cd34-1.jpg", "x y.jpg"]
PATHS = [f"{place}{base}" for place in ["", "set1/", "set2/", "Set2/", "a b/"] for base in BASES]


@settings(deadline=None, derandomize=True, max_examples=80)
@given(
    st.lists(st.sampled_from(PATHS), min_size=1, max_size=12, unique=True),
    st.lists(st.tuples(st.sampled_from(FORMS), st.sampled_from(PATHS)), min_size=1, max_size=15),
    st.randoms(use_true_random=False),
)
def test_no_file_is_of_two_names_and_their_order_does_not_matter(files, forms, random):
    names = [*{form(path) for form, path in forms}]
    with TemporaryDirectory() as place:
        touch(Path(place), files)
        found = find(Path(place), names)
        given_files = [file for file in found.values() if file]
        assert len(given_files) == len({*given_files})
        assert {*given_files} <= {*files}
        for name in names:
            assert name not in files or found[name] == name
            if file := found[name]:  # never another base name, but for an upload's random prefix
                base = re.split(r"[/\\=]", unquote(name.removesuffix("?x=2")))[-1]
                bases = (one.casefold() for one in (base, Path(file).name))
                assert len({one.removeprefix("ab12cd34-") for one in bases}) == 1
        for _ in range(3):
            random.shuffle(names)
            assert find(Path(place), names) == found


THIN, LARGE_ONE = (20, 12), (40, 40)


@pytest.mark.parametrize(
    ("sizes", "is_dummy"),
    [
        ([THIN] * 4, False),  # thin masks of one size
        ([THIN, THIN, LARGE_ONE, LARGE_ONE], False),  # half of the boxes can have it
        ([THIN, LARGE_ONE, LARGE_ONE, LARGE_ONE], True),
        ([(8, 8)] * 4, True),  # smaller than the area
    ],
)
def test_one_area_of_all_is_a_dummy_if_most_boxes_cannot_have_it(folder, sizes, is_dummy):
    data = edit(plain(), "annotations", area=72, segmentation=...)
    for one, size in zip(data["annotations"], sizes, strict=True):
        one["bbox"] = [2, 2, *size]
    found = read(folder, data)
    areas = [one["area"] for image in found.images for one in found.objects[image["id"]]]
    assert areas == ([w * h for w, h in sizes] if is_dummy else [72] * 4)


def test_numbers_that_ids_get_are_no_ids_of_the_file(folder):
    """Images "a1" and "a2" become 1 and 2; an object of image 1 is of neither."""
    data = plain()
    ids("a{}".format, "images")(data)
    with pytest.raises(ValueError, match=r"the id of an image \(1, such as object 1: image_id='1'"):
        read(folder, edit(data, "annotations/0", image_id=1))


def test_far_polygons_are_cut(folder):
    """Tiles of large images keep whole polygons; the mask is the part in the image."""
    box = [4, 6, 20, 10**7]
    data = edit(plain(), "annotations/0", segmentation=[polygon(*box)], bbox=box)
    one = read(folder, data).objects[1][0]
    pixels = mask.decode(one["segmentation"])
    assert pixels[6:, 4:24].all()
    assert pixels.sum() == one["area"] == 20 * 42
    assert one["bbox"] == [4, 6, 20, 42]


@pytest.mark.parametrize(
    ("orientation", "form", "stored"),
    [
        *((orientation, "JPEG", False) for orientation in range(1, 9)),
        *((orientation, "JPEG", True) for orientation in (1, 5, 6, 7, 8)),
        *((3, "PNG", False), (8, "PNG", False), (8, "PNG", True)),
    ],
)
def test_phone_photos_are_turned_upright_with_their_annotations(folder, orientation, form, stored):
    """In the stored image, a white rectangle; annotations are in the one or the other frame.

    Where both have one size, the upright one is meant.
    """
    pixels = np.zeros((HEIGHT, WIDTH, 3), "uint8")
    pixels[6:18, 4:24] = 255
    Image.fromarray(pixels).save(folder / "1.jpg", form, quality=100, exif=turned(orientation))
    upright = read_pixels(folder / "1.jpg")
    inside = (pixels if stored else upright)[..., 0] > 127
    rows, columns = (np.flatnonzero(inside.any(axis)) for axis in (1, 0))
    box = [*map(int, (columns[0], rows[0], len(columns), len(rows)))]
    data = plain()
    data["images"][0] |= {"height": len(inside), "width": len(inside[0])}
    data["annotations"][:2] = [
        {"image_id": 1, "category_id": 1, "bbox": box, "iscrowd": 0, "area": 240,
         "segmentation": [polygon(*map(float, box))]}
    ]  # fmt: skip
    found = read(folder, data)
    images = shards.read_images(shards.pattern(written(folder, found), shards.TRAIN))
    # Without EXIF, the file is stored as it is, and TensorFlow decodes JPEG in two ways.
    np.testing.assert_allclose(images[1], upright, atol=10 if orientation == 1 else 0)
    (one,) = found.objects[1]
    white = upright[..., 0] > 127
    np.testing.assert_array_equal(mask.decode(one["segmentation"]), white)
    left, top, width, height = map(int, one["bbox"])
    assert white[top : top + height, left : left + width].sum() == white.sum() == width * height
    assert (found.images[0]["height"], found.images[0]["width"]) == white.shape


def test_training_reads_all_formats(folder):
    """Also under the suffix of another format, and as prediction does."""
    rng = np.random.default_rng(0)
    rgb = Image.fromarray(rng.integers(0, 256, (HEIGHT, WIDTH, 3), "uint8"))
    alpha = rgb.copy()
    alpha.putalpha(Image.fromarray(rng.integers(0, 256, (HEIGHT, WIDTH), "uint8")))
    forms = {
        "a.webp": ("WEBP", rgb), "b.jpg": ("WEBP", rgb), "c.tif": ("TIFF", rgb),
        "d.png": ("GIF", rgb.convert("P")), "e.bmp": ("BMP", rgb), "f.jpg": ("PNG", alpha),
        "g.png": ("JPEG", rgb.convert("CMYK")), "h.jpg": ("JPEG", rgb.convert("L")),
        "i.png": ("PNG", rgb.convert("P")), "j.png": ("PNG", rgb.convert("1")),
    }  # fmt: skip
    data = plain()
    box = data["annotations"][0]
    data |= {"images": [], "annotations": []}
    for number, (name, (form, image)) in enumerate(forms.items()):
        image.save(folder / name, form)
        data["images"].append({"id": number, "file_name": name, "width": WIDTH, "height": HEIGHT})
        data["annotations"].append({**box, "image_id": number})
    found = read(folder, data)
    deep = Image.fromarray(rng.integers(0, 2**16, (HEIGHT, WIDTH), "uint16"))
    deep.save(folder / "k.jpg", "PNG")
    data["images"].append({**data["images"][0], "id": 99, "file_name": "k.jpg"})
    with pytest.raises(ValueError, match=r"unreadable image files .16-bit PNG.* such as k.jpg"):
        read(folder, data)
    images = shards.read_images(shards.pattern(written(folder, found), shards.TRAIN))
    for number, name in enumerate(forms):
        difference = images[number].astype(int) - read_pixels(folder / name)
        assert abs(difference).mean() < 1, name  # two ways to decode JPEG
        assert name[0] in "gh" or not difference.any(), name


@pytest.mark.slow
def test_more_than_100_objects(folder):
    draw(folder / "3.jpg", size=(640, 480))
    data = plain()
    data["images"].append({"id": 3, "file_name": "3.jpg", "width": 640, "height": 480})
    places = [(40 * i, 48 * j, 30, 40) for i in range(16) for j in range(10)]
    data["annotations"] += [
        {"image_id": 3, "category_id": 1, "bbox": place, "area": 1200, "iscrowd": 0,
         "segmentation": [polygon(*place)]} for place in places
    ]  # fmt: skip
    place = written(folder, read(folder, data))
    words = detectors.settings(place, "runs/new")
    words["data"] |= {"scale_min": 1.0, "scale_max": 1.0, "batch_size": 3}
    config, dataset = DetectionConfig(**words), shards.Dataset.read(place)
    experiment = create_experiment(config, dataset.categories, dataset.masks, dataset.most_objects)
    task = Task(experiment, records=detectors.training_records(config))
    _, labels = next(iter(task.build_inputs(experiment.task.train_data)))
    assert sorted(int((one > 0).numpy().sum()) for one in labels["gt_classes"]) == [2, 2, 160]
