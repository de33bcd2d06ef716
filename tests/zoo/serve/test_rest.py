"""JSON of requests and responses."""

import base64
import json
from functools import partial

import numpy as np
import pytest
from support.serving import b64

from zoo.serve import rest
from zoo.serve.rest import Refused, read_request, write_response

SIGNATURES = {
    "serving_default": ({"images": ("float32", [-1, 2, 3])}, {"p": ("float32", [-1, 4])}),
    "integers": ({"images": ("uint8", [-1, -1])}, {}),
    "files": ({"image_bytes": ("string", [-1])}, {}),
    "two": ({"a": ("float32", [-1]), "b": ("float32", [-1])}, {}),
}
ZEROS = np.zeros((2, 2, 3)).tolist()
JPEG = b"\xff\xd8\xff\xfb\xef\xbe" * 5


def read(**content):
    return read_request(json.dumps(content).encode(), SIGNATURES)


files = partial(read, signature_name="files")
integers = partial(read, signature_name="integers")


@pytest.mark.parametrize(
    "request_",
    [
        partial(read, instances=[[[1, 2.5, 3], [4, 5, 6]]]),
        partial(read, inputs=[[[1, 2.5, 3], [4, 5, 6]]]),
        partial(read, instances=[{"images": [[1, 2.5, 3], [4, 5, 6]]}]),
        partial(read, inputs={"images": [[[1, 2.5, 3], [4, 5, 6]]]}, signature_name=""),
    ],
)
def test_rows_and_columns(request_):
    request = request_()
    assert request.by_row == ("instances" in request_.keywords)
    assert request.inputs["images"].dtype == "float32"
    np.testing.assert_array_equal(request.inputs["images"], [[[1, 2.5, 3], [4, 5, 6]]])


def test_integers_files_and_several_inputs():
    images = integers(instances=[[0, 255], [1, 2]]).inputs["images"]
    assert images.dtype == "uint8"
    assert images.tolist() == [[0, 255], [1, 2]]
    lines = base64.encodebytes(JPEG * 9).decode()
    found = files(instances=["ü", b64(JPEG), {"b64": lines}, b64(b"a\0")]).inputs["image_bytes"]
    assert found.tolist() == ["ü".encode(), JPEG, JPEG * 9, b"a\0"]
    two = read(signature_name="two", instances=[{"a": 1, "b": 2}, {"a": 3, "b": 4}]).inputs
    assert [two["a"].tolist(), two["b"].tolist()] == [[1, 3], [2, 4]]


BASE64 = 'expected standard base64 of a file in {"b64": "..."}, encoded once'


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (partial(read, instances=[]), r"instances: expected a list of one or more. Received: \[\]"),
        (partial(read, inputs=[]), r"of shape \(-1, 2, 3\), -1 for any size. Received: \(0,\)"),
        (partial(files, inputs=[]), "expected one or more images"),
        (partial(files, inputs="text"), r"image_bytes: expected a list of string .* 'text'"),
        (partial(read), "either 'instances' or 'inputs'"),
        (partial(read, instances=ZEROS, inputs=ZEROS), "either 'instances' or 'inputs'"),
        (partial(read, instances=ZEROS, signature_name="file"), "did you mean 'files'"),
        (partial(read, instances=ZEROS, signature_name=["files"]), "no such signature_name"),
        (partial(read, instances=[{"x": 1}]), r"expected the inputs \['images'\]. Received: \['x"),
        (partial(read, instances=[{"images": 1}, 2]), "the same inputs in each"),
        (partial(read, inputs=[1], signature_name="two"), "Received: no names"),
        (partial(read, inputs={"a": [1], "b": [1, 2]}, signature_name="two"), "as many in every"),
        (partial(read, instances=np.zeros((1, 3, 2)).tolist()), r"Received: \(1, 3, 2\)"),
        (partial(read, instances=[[[1, 2], [3]]]), "lists of uneven lengths"),
        (partial(read, instances=[*"12"]), r"images: expected a list of float32 .* Received: str"),
        (partial(read, instances=[True]), "Received: bool"),
        (partial(read, instances=[b64(JPEG)]), "Received: dict"),
        (partial(read, instances=np.full((1, 2, 3), 1e300).tolist()), "Received: larger numbers"),
        (partial(integers, instances=[[256]]), "Received: larger numbers"),
        (partial(integers, instances=[[0.5]]), "Received: float"),
        (partial(files, instances=[5]), f"{BASE64}.* Received: 5"),
        (partial(files, instances=[{"b64": 5}]), f"{BASE64}.* 5"),
        (
            partial(files, instances=[{"b64": f"data:image/jpeg;base64,{b64(JPEG)['b64']}"}]),
            f"{BASE64}.*'data:",
        ),
        (partial(files, instances=[{"b64": b64(JPEG)["b64"][:-1]}]), f"{BASE64}.*padding"),
    ],
)
def test_bad_requests(call, message):
    with pytest.raises(Refused, match=message) as caught:
        call()
    assert caught.value.status == 400
    assert len(str(caught.value)) < 510


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"instances": [NaN]}', b"[" * 10**6, b"\xff", b'"\\ud800"', b"[1e400]"]
)
def test_no_json(body):
    with pytest.raises(Refused, match="expected JSON, which has no NaN"):
        read_request(body, SIGNATURES)


def test_responses():
    one = {"p": np.array([[0.1, 1]], "float32")}
    assert write_response(one, True) == b'{"predictions":[[0.1,1.0]]}'
    assert write_response(one, False) == b'{"outputs":[[0.1,1.0]]}'
    both = {"n": np.array([7, 8]), "labels": np.array([["ü".encode()], [b"\xff"]])}
    rows = [{"n": 7, "labels": ["ü"]}, {"n": 8, "labels": ["\ufffd"]}]
    assert json.loads(write_response(both, True)) == {"predictions": rows}
    columns = {"n": [7, 8], "labels": [["ü"], ["\ufffd"]]}
    assert json.loads(write_response(both, False)) == {"outputs": columns}


GRAPH = """Graph execution error:

Detected at node map/Assert defined at (most recent call last):
<stack traces unavailable>
assertion failed: [expected a JPEG or PNG image]
\t [[{{node map/Assert}}]] [Op:__inference_signature_wrapper_of_files_1126]"""


@pytest.mark.parametrize(
    ("code", "file", "status", "message"),
    [
        (3, JPEG, 400, "expected a JPEG or PNG image"),
        (3, base64.b64encode(JPEG), 400, BASE64),
        (8, JPEG, 500, "ValueError: Graph execution error"),
        (None, JPEG, 500, "ValueError: Graph execution error"),
    ],
)
def test_errors_of_runtimes(code, file, status, message):
    error = ValueError(GRAPH)
    error.error_code = code
    refused = rest.refusal(error, files(instances=[b64(file)]))
    assert refused.status == status
    assert message in str(refused)
    assert ("assertion failed" in str(refused)) == (status == 500)
    assert ("base64" in str(refused)) == (message == BASE64)


def test_metadata():
    described = rest.metadata("m", "7", SIGNATURES)
    assert described["model_spec"] == {"name": "m", "signature_name": "", "version": "7"}
    signatures = described["metadata"]["signature_def"]["signature_def"]
    images = signatures["serving_default"]["inputs"]["images"]
    assert images["dtype"] == "DT_FLOAT"
    assert [dim["size"] for dim in images["tensor_shape"]["dim"]] == ["-1", "2", "3"]
    assert signatures["files"]["inputs"]["image_bytes"]["dtype"] == "DT_STRING"
