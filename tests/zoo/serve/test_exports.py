"""Exports on disk: names, versions, formats."""

from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.lfs import LFS_POINTER, PULL

from zoo.export.formats import FORMATS
from zoo.serve.exports import find

FIXTURES = Path(__file__).parents[2] / "fixtures" / "exports"


@pytest.fixture
def exports(here) -> Path:
    """Version 2 and 10 of a SavedModel, 3 of its ONNX file, and others."""
    resnet = "2/saved_model.pb", "10/saved_model.pb", "onnx/3/model.onnx"
    others = "only/litert/1/model.tflite", "plain/model.xml", "two/a/1/model.xml"
    bad = "two/b/1/model.xml", "bad/1/saved_model.pb", "bad/2/other.txt"
    for file in (*(f"resnet/{name}" for name in resnet), *others, *bad):
        (here / file).parent.mkdir(parents=True)
        (here / file).touch()
    return here


@pytest.mark.parametrize(
    ("path", "name", "version", "format_name", "folder"),
    [
        ("resnet", "resnet", "10", "saved_model", "resnet/10"),
        ("resnet/2", "resnet", "2", "saved_model", "resnet/2"),
        ("resnet/onnx", "resnet", "3", "onnx", "resnet/onnx/3"),
        ("resnet/onnx/3/", "resnet", "3", "onnx", "resnet/onnx/3"),
        ("only", "only", "1", "litert", "only/litert/1"),
        ("plain", "plain", "1", "openvino", "plain"),
        ("two/../resnet/.", "resnet", "10", "saved_model", "resnet/10"),
    ],
)
def test_name_and_version(exports, path, name, version, format_name, folder):
    found = find(Path(path))
    assert (found.name, found.version, found.format_name) == (name, version, format_name)
    assert found.folder == exports / folder


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("none", "export: expected a folder. Received: 'none', not found"),
        ("plain/model.xml", "expected a folder. Received: 'plain/model.xml'"),
        ("two", "'two', with a/1, b/1"),
        ("bad", "'bad', with no export"),
        ("bad/2", "'bad/2', with no export"),
    ],
)
@pytest.mark.usefixtures("exports")
def test_other_folders(path, message):
    with pytest.raises(ValueError, match=message):
        find(Path(path))


class Recorded:
    """A runtime of two signatures that keeps what it was called with."""

    def __init__(self, calls, *arguments):
        self.calls = calls
        calls.append(arguments)

    def signatures(self):
        images, files = ("uint8", [-1, -1, 7, 3]), ("string", [4])
        return {"images": ({"x": images}, {}), "files": ({"f": files}, {})}

    def run(self, signature, inputs):
        ((_, array),) = inputs.items()
        self.calls.append((signature, array.dtype.name, array.shape))
        return {}


@pytest.mark.parametrize("name", FORMATS)
def test_every_runtime_gets_its_threads_and_runs_every_signature_once(tmp_path, monkeypatch, name):
    """Images of any size have 64 pixels: of one pixel, deep networks leave nothing."""
    calls: list = []
    monkeypatch.setattr(FORMATS[name], "runtime", partial(Recorded, calls))
    (tmp_path / FORMATS[name].file).touch()
    runtimes = find(tmp_path).load(3, threads=5)
    warm_up = [("images", "uint8", (1, 64, 7, 3)), ("files", "object", (4,))]
    if FORMATS[name].shared:
        assert calls == [(tmp_path, 5), *warm_up]
        assert [runtimes[0]] * 3 == runtimes
    else:
        assert calls == [(tmp_path, 5)] * 3 + warm_up * 3
        assert len(set(runtimes)) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"garbage" * 99, "export: expected an undamaged .* Received: "), (LFS_POINTER, f"is {PULL}")],
    ids=["garbage", "pointer of Git LFS"],
)
@pytest.mark.parametrize("name", FORMATS)
def test_damaged_exports(tmp_path, name, content, message):
    (tmp_path / FORMATS[name].file).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        find(tmp_path).load()
    assert "\n" not in str(caught.value)


def test_an_export_whose_outputs_are_not_finite(tmp_path):
    model = onnx.load(FIXTURES / "onnx" / "model.onnx")
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            array = onnx.numpy_helper.to_array(tensor) * np.nan
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    onnx.save(model, tmp_path / "model.onnx")
    message = r"undamaged ONNX. .*finite outputs of serving_default\. Received: nan in prob"
    with pytest.raises(ValueError, match=message):
        find(tmp_path).load()
