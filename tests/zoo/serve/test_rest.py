"""JSON of requests and responses."""

import base64
import gzip
import json
import time
from functools import partial
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from support.serving import b64

from zoo.data.image_files import announced_pixels
from zoo.serve import rest
from zoo.serve.rest import Refused, read_request, write_response

SIGNATURES = {
    "serving_default": ({"images": ("float32", [-1, 2, 3])}, {"p": ("float32", [-1, 4])}),
    "integers": ({"images": ("uint8", [-1, -1])}, {}),
    "files": ({"image_bytes": ("string", [-1])}, {}),
    "two": ({"a": ("float32", [-1]), "b": ("float32", [-1])}, {}),
    "large": ({"images": ("float32", [-1])}, {"maps": ("float32", [-1, 2**12, 2**12])}),
}
ZEROS = np.zeros((2, 2, 3)).tolist()
JPEG = b"\xff\xd8\xff\xfb\xef\xbe" * 5


def zipped(content: bytes) -> bytes:
    """Without the time, which would be in the names of tests, and differ between workers."""
    return gzip.compress(content, mtime=0)


def read(**content):
    return parse(json.dumps(content).encode())


def parse(body: bytes):
    return read_request(body, SIGNATURES, 100)


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


DATA_URL = f"data:image/jpeg;base64,{b64(JPEG)['b64']}"
BASE64 = 'expected standard base64 of a file in {"b64": "..."}, encoded once'


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (partial(read, instances=[]), r"instances: expected a list of one or more. Received: \[\]"),
        (partial(read, inputs=[]), "expected one or more images"),
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
        (partial(read, instances=[[[0, 0]] * 3]), r"of shape \(-1, 2, 3\), .* list of 3 at \[0\]"),
        (partial(read, instances=[*ZEROS, [[1, 2, 3], [4]]]), r"a list of 1 at \[2\]\[1\]"),
        (partial(read, instances=[*"12"]), r"float32 .* Received: str at \[0\]"),
        (partial(read, instances=[b64(JPEG)]), r"Received: dict at \[0\]"),
        (partial(read, instances=[[[1, 2, True], [4, 5, None]]]), "Received: NoneType, bool"),
        (partial(read, instances=[[[1, 2, [3]], [4, 5, 6]]]), "Received: list"),
        (partial(integers, instances=[[1, 2], [3]]), r"Received: a list of 1 at \[1\]"),
        (partial(read, instances=ZEROS * 51), "expected at most 100 images at a time. Received: 1"),
        (partial(read, inputs=ZEROS * 51), "expected at most 100 images at a time. Received: 102"),
        (partial(read, signature_name="large", inputs=[1] * 3), "33554432 numbers. Rec.* 50331648"),
        (partial(read, instances=np.full((1, 2, 3), 1e300).tolist()), "Received: larger numbers"),
        (partial(integers, instances=[[256]]), "Received: larger numbers"),
        (partial(integers, instances=[[0.5]]), "Received: float"),
        (partial(files, instances=[5]), f"{BASE64}.* Received: 5"),
        (partial(files, instances=[{"b64": 5}]), f"{BASE64}.* 5"),
        (partial(files, instances=[{"b64": DATA_URL}]), f"{BASE64}.*'data:"),
        (partial(files, instances=[{"b64": b64(JPEG)["b64"][:-1]}]), f"{BASE64}.*padding"),
        (partial(parse, b" \n"), "expected a JSON object. Received: an empty body"),
        (partial(parse, b"{"), r"expected JSON \(unexpected end of data: "),
        (partial(parse, b'{"instances": [NaN]}'), "finite, .*. Received: NaN at position 15"),
        (partial(parse, '{"ä": [1, -Infinity]}'.encode()), ".* Received: Infinity at position 11"),
        (partial(parse, b"[" * 2000), r"expected JSON \(.*depth"),
        (partial(parse, b'{"\xc3\xa4": "\xe4"}'), "in UTF-8. Received: byte 0xe4 at position 8"),
        (partial(parse, b"\xef\xbb\xbf{}"), "without a byte order mark. Received: one"),
        (partial(parse, zipped(b"{}")), "Received: gzip without the header Content-Encoding: gzip"),
        (partial(parse, b'"\\ud800"'), r"expected JSON \(.*surrogate"),
        (partial(parse, b"[1e400]"), r"expected JSON \(.*infinity"),
        (partial(parse, b"a=b"), r"expected JSON \(unexpected character"),
    ],
)
def test_bad_requests(call, message):
    with pytest.raises(Refused, match=message) as caught:
        call()
    assert caught.value.status == 400
    assert len(str(caught.value)) < 510


@pytest.mark.parametrize(
    "repeated",
    [b"[],", b"{},", b"[[[]]],", b"[" * 99, b'{"a":0},', b"0,", b'"",', b"[0,0,0],", b"[[0]],"],
)
def test_bodies_of_many_elements_are_refused_at_once(repeated):
    """As many as 8 MiB hold, none of which is an image."""
    few = {name: SIGNATURES[name] for name in ("serving_default", "files")}
    body = b'{"instances":[' + repeated * (2**23 // len(repeated)) + b"0]}"
    begin = time.process_time()
    with pytest.raises(Refused, match="expected at most 100 images of a signature"):
        read_request(body, few, 100)
    assert time.process_time() - begin < 0.5


def images_of(shape) -> dict:
    return {"serving_default": ({"images": ("float32", shape)}, {})}


def test_the_first_list_that_does_not_fit_ends_a_request(monkeypatch):
    """Where images of any size allow so many elements, as for detectors."""
    monkeypatch.setattr(rest, "FEW", 2**8)
    signatures = images_of([-1, -1, -1, 3])
    images = np.zeros((1, 30, 40, 3), "uint8").tolist()
    images[0][1][2] = [0, 0]
    body = json.dumps({"instances": images}).encode()
    with pytest.raises(Refused, match=r"Received: a list of 2 at \[0\]\[1\]\[2\]"):
        read_request(body, signatures, 1)
    with pytest.raises(Refused, match="expected at most 9 images of a signature"):
        read_request(b'{"instances":[' + b"[]," * 2**9 + b"[]]}", signatures, 9)


@pytest.mark.parametrize(("size", "side"), [(1, 1), (2, 2), (5, 5), (32, 32), (32, -1)])
def test_a_large_request_is_allowed(monkeypatch, size, side):
    """As many images of a network as may wait; detectors take any size."""
    monkeypatch.setattr(rest, "FEW", 2**5)
    signatures = images_of([-1, side, side, 3])
    pixels = np.zeros((16, size, size, 3), "uint8")
    body = json.dumps({"instances": [{"images": one} for one in pixels.tolist()]}).encode()
    assert rest.is_large(body, signatures, 16)
    np.testing.assert_array_equal(read_request(body, signatures, 16).inputs["images"], pixels)


def photo(name: str, size=(5000, 5000), **options) -> bytes:
    file = BytesIO()
    Image.new("L" if name == "JPEG" else "1", size).save(file, name, **options)
    return file.getvalue()


@pytest.mark.parametrize("name", ["PNG", "JPEG", "GIF", "BMP"])
def test_pixels_of_a_request_have_a_limit(name):
    """Announced by headers: no image is decoded."""
    file = photo(name)
    assert len(files(instances=[b64(file)] * 4).inputs["image_bytes"]) == 4
    message = "image files of at most 100 megapixels in a request. Received: 125"
    with pytest.raises(Refused, match=message):
        files(instances=[b64(file)] * 5)


def test_pixels_of_odd_jpeg_files():
    """As decoders find them: behind metadata and fill bytes; scans cost as much as pixels."""
    file = photo("JPEG", (300, 200), exif=b"Exif\0\0" + b"\xff\xc0" * 99)
    assert announced_pixels(file) == 60_000
    assert announced_pixels(photo("JPEG", (300, 200), progressive=True)) == 60_000
    assert announced_pixels(file[:2] + b"\xff" * 99 + file[2:]) == 60_000
    assert announced_pixels(file[:-2] + b"\xff\xda" * 3000 + file[-2:]) == 101 * 60_000
    assert announced_pixels(file[:20] + b"\0" + file[20:]) == 50_000_000  # behind JFIF
    assert announced_pixels(file[:2] + b"\xff" * 2000 + file[2:]) == 50_000_000
    for cut in (3, 10, 100):
        assert announced_pixels(file[:cut]) == 0
    assert announced_pixels(b"text") == 0


@pytest.mark.parametrize(
    ("encoding", "body", "status", "message"),
    [
        ("br", b"{}", 415, "expected Content-Encoding gzip, or none. Received: br"),
        ("gzip, gzip", b"{}", 415, "Received: gzip, gzip"),
        ("gzip", b"{}", 400, r"expected gzip, as Content-Encoding says \(Not a gzipped file"),
        ("gzip", zipped(b"{}")[:-9], 400, "expected gzip, as Content-Encoding says"),
        ("gzip", zipped(b"{}")[:-8] + bytes(8), 400, "CRC check failed"),
        ("gzip", zipped(bytes(101)), 413, "expected at most 100 bytes in gzip"),
        ("gzip", zipped(bytes(60)) * 2, 413, "expected at most 100 bytes in gzip"),
    ],
)
def test_bad_encodings(encoding, body, status, message):
    with pytest.raises(Refused, match=message) as caught:
        rest.decompress(body, encoding, 100)
    assert caught.value.status == status


def test_gzip():
    assert rest.decompress(b"abc", "", 3) == rest.decompress(b"abc", "identity", 3) == b"abc"
    assert rest.decompress(zipped(b"abc"), "gzip", 3) == b"abc"
    assert rest.decompress(zipped(b"a") + zipped(b"bc"), "x-gzip", 3) == b"abc"


def test_outputs_that_are_not_finite():
    for wrong in (np.nan, np.inf, -np.inf):
        outputs = {"classes": np.array([[1]]), "p": np.array([[0.5, wrong]], "float32")}
        for by_row in (True, False):
            with pytest.raises(Refused, match=f"expected finite outputs .* Received: {wrong} in p"):
                write_response(outputs, by_row)


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
