"""Records of pseudo-labeled images, and the description of a selection."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import tensorflow as tf

from zoo.data import pseudo_records
from zoo.data.pseudo_records import SELECTION
from zoo.files import write_json

LABEL = pseudo_records.PseudoLabel(
    image=b"\xff\xd8\xff",
    name="a.jpg",
    classes=[2, 0],
    log_probabilities=np.log([0.7, 0.2]),
    rest=0.1,
    score=0.7,
    teacher="network-0123456789ab",
    sha256=bytes(range(32)),
    perceptual_hash=-(2**63),
)


def test_parsed_record_is_the_label():
    found = pseudo_records.parse(tf.constant(LABEL.serialize()))
    assert found["label"] == 2
    for name, value in asdict(LABEL).items():
        value = value.encode() if isinstance(value, str) else value
        if isinstance(value, bytes):
            assert found[name] == value
        else:
            np.testing.assert_allclose(found[name], np.asarray(value), rtol=1e-6)


def test_records_are_ordinary_shards_of_imagenet():
    label = replace(LABEL, name=b"\xe9.jpg".decode(errors="surrogateescape"))  # not UTF-8
    features = tf.train.Example.FromString(label.serialize()).features.feature
    assert features["image/encoded"].bytes_list.value[0] == LABEL.image
    assert features["image/class/label"].int64_list.value[0] == 2
    assert features["image/filename"].bytes_list.value[0] == b"\xe9.jpg"
    own = {f"label/{name}" for name in ("classes", "log_probabilities", "rest", "score", "teacher")}
    assert own | {"image/perceptual_hash", "image/sha256"} < {*features}


@pytest.mark.parametrize(
    ("label", "temperature", "expected"),
    [
        (LABEL, 1, [0.2, 0.05, 0.7, 0.05]),
        (LABEL, 2, np.sqrt([0.2, 0.05, 0.7, 0.05]) / np.sqrt([0.2, 0.05, 0.7, 0.05]).sum()),
        (replace(LABEL, classes=[1, 0], rest=0.0), 1, np.array([0.2, 0.7]) / 0.9),
    ],
)
def test_other_classes_share_the_rest(label, temperature, expected):
    found = pseudo_records.soft_label(
        pseudo_records.parse(tf.constant(label.serialize())), len(expected), temperature
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.fixture
def selected(tmp_path):
    """A folder of one selected file, and what describes it."""
    (tmp_path / "train-0").write_bytes(b"12345678")
    selection = pseudo_records.Selection(
        class_names=("cat", "dog"),
        teacher="network-0123456789ab",
        files=(pseudo_records.SelectedFile(name="train-0", records=3, bytes=8),),
        settings={"threshold": 0.3},
        counts_before=(4, 5),
        counts_after=(2, 1),
        left_out={"threshold": 6},
    )
    write_json(tmp_path / SELECTION, selection.model_dump(mode="json"))
    return tmp_path, selection


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda folder: (folder / SELECTION).unlink(), "expected a folder of python -m zoo.pseudo"),
        (lambda folder: (folder / SELECTION).write_text("{}"), "class_names: Field required"),
        (lambda folder: (folder / SELECTION).write_text("{"), "expected an intact select.json"),
        (lambda folder: (folder / "train-0").unlink(), "train-0. Received: no such file"),
        (lambda folder: (folder / "train-0").write_bytes(b"1"), "expected 8 bytes in"),
    ],
)
def test_damaged_selection_is_refused(selected, change, part):
    folder, _ = selected
    change(folder)
    with pytest.raises(ValueError, match=r"data\.pseudo\.dir: ") as caught:
        pseudo_records.read_selection(folder)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("names", "part"),
    [
        (["dog", "cat"], "2 classes of network-0123456789ab, such as 'cat', not 'dog'"),
        (["cat", "dog", "fox"], "the 3 classes of the labeled images. Received: 2 classes"),
    ],
)
def test_teacher_of_other_classes_is_refused(selected, names, part):
    assert pseudo_records.read_selection(selected[0]) == selected[1]
    selected[1].check_classes(["cat", "dog"])
    with pytest.raises(ValueError, match=part):
        selected[1].check_classes(names)
