"""JSON of TensorFlow Serving's REST interface, to and from named arrays.

https://www.tensorflow.org/tfx/serving/api_rest
"""

import base64
import re
import reprlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from gzip import GzipFile
from io import BytesIO
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from zoo.data.image_files import announced_pixels
from zoo.errors import needs_extra, shorten, unknown
from zoo.export.base import DEFAULT, Arrays, Signatures
from zoo.inference.predictions import check_outputs

with needs_extra("serve"):
    import orjson

B64 = 'standard base64 of a file in {"b64": "..."}, encoded once, without a prefix like "data:"'
INVALID_ARGUMENT = 3  # error code of TensorFlow
FEW = 2**18  # commas and brackets of a body that takes some milliseconds to parse
MAX_MEGAPIXELS = 100  # of all image files of a request
MAX_VALUES = 2**25  # numbers of a response

Body = bytes | bytearray


class Refused(Exception):
    """Reason why a request has no predictions, and the HTTP status."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(shorten(" ".join(reason.split()), 500))
        self.status = status


@dataclass(frozen=True)
class Request:
    """A request for predictions."""

    signature: str
    inputs: Arrays  # of the same length, at least 1
    by_row: bool  # whether JSON has instances and predictions, not inputs and outputs


def decompress(body: Body, encoding: str, max_bytes: int) -> Body:
    """Returns the content of a body; raises `Refused` for more than `max_bytes`."""
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "x-gzip"):
        raise Refused(f"expected Content-Encoding gzip, or none. Received: {encoding}", 415)
    try:
        content = GzipFile(fileobj=BytesIO(body)).read(max_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise Refused(f"expected gzip, as Content-Encoding says ({error})") from None
    if len(content) > max_bytes:
        raise Refused(f"expected at most {max_bytes} bytes in gzip. Received: more", 413)
    return content


def read_request(body: Body, signatures: Signatures, max_images: int) -> Request:
    """Reads and checks the body of a request; raises `Refused`."""
    is_large(body, signatures, max_images)
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refused(_no_json(bytes(body), error)) from None
    if not isinstance(content, dict) or ("instances" in content) == ("inputs" in content):
        raise Refused("expected a JSON object with either 'instances' or 'inputs'")
    signature = content.get("signature_name") or DEFAULT
    if not isinstance(signature, str) or signature not in signatures:
        raise Refused(f"no such signature_name. {unknown(str(signature), signatures)}")
    specs, outputs = signatures[signature]
    by_row = "instances" in content
    values = _columns(content["instances"], max_images) if by_row else content["inputs"]
    if not _is_named(values) and len(specs) == 1:
        values = dict.fromkeys(specs, values)
    if not _is_named(values) or values.keys() != specs.keys():
        received = reprlib.repr(sorted(values)) if _is_named(values) else "no names"
        raise Refused(f"expected the inputs {sorted(specs)}. Received: {received}")
    inputs = {name: _array(name, values[name], *specs[name], max_images) for name in specs}
    if len({len(array) for array in inputs.values()} - {0}) != 1:
        raise Refused("expected one or more images, as many in every input")
    count = len(next(iter(inputs.values())))
    if (numbers := count * sum(prod(map(abs, shape[1:])) for _, shape in outputs.values())) > (
        MAX_VALUES
    ):
        raise Refused(f"expected outputs of at most {MAX_VALUES} numbers. Received: {numbers}")
    files = [file for array in inputs.values() if array.dtype == object for file in array]
    if (pixels := sum(map(announced_pixels, files))) > MAX_MEGAPIXELS * 10**6:
        expected = f"expected image files of at most {MAX_MEGAPIXELS} megapixels in a request"
        raise Refused(f"{expected}. Received: {pixels / 1e6:.0f}")
    return Request(signature, inputs, by_row)


def is_large(body: Body, signatures: Signatures, max_images: int) -> bool:
    """Returns whether parsing a body would keep other requests waiting.

    Raises `Refused` for more elements than `max_images` images of any signature have, before
    they become objects.
    """
    commas, brackets = body.count(b","), body.count(b"[") + body.count(b"{")
    if commas + brackets <= FEW:
        return False
    for inputs, _ in signatures.values():
        # Dimensions of any size count as 8.
        sizes = [[8 if size < 0 else size for size in shape[1:]] for _, shape in inputs.values()]
        values = sum(map(prod, sizes))
        lists = sum(prod(shape[:axis]) for shape in sizes for axis in range(len(shape)))
        any_size = any(size < 0 for _, shape in inputs.values() for size in shape[1:])
        many = (commas - FEW) > max_images * (values + len(sizes)) and not any_size
        if not many and (brackets - FEW) * values <= commas * lists:
            return True
    received = f"{commas} commas and {brackets} brackets"
    raise Refused(f"expected at most {max_images} images of a signature. Received: {received}")


def _no_json(body: bytes, error: orjson.JSONDecodeError) -> str:
    """Describes why a body cannot be read as JSON."""
    if not body.strip():
        return "expected a JSON object. Received: an empty body"
    if body.startswith(b"\x1f\x8b"):
        return "expected JSON. Received: gzip without the header Content-Encoding: gzip"
    try:
        text = body.decode()
    except UnicodeDecodeError as wrong:
        received = f"byte {body[wrong.start]:#04x} at position {wrong.start}"
        return f"expected JSON in UTF-8. Received: {received}"
    if text[0] == "\ufeff":
        return "expected JSON in UTF-8 without a byte order mark. Received: one"
    if match := re.compile(r"-?(NaN|Infinity|inf|nan)").match(text, error.pos):
        received = f"{match[0]} at position {error.pos}"
        return f"expected numbers that are finite, as JSON has no others. Received: {received}"
    return f"expected JSON ({error})"


def write_response(outputs: Arrays, by_row: bool) -> bytes:
    """Writes named outputs as rows of predictions or as columns; raises `Refused`."""
    try:
        check_outputs("this model for these inputs", outputs)
    except ValueError as error:
        raise Refused(str(error)) from None
    columns: dict[str, Any] = {
        name: np.char.decode(array, "utf-8", "replace").tolist()
        if array.dtype.kind == "S"
        else np.ascontiguousarray(array)
        for name, array in outputs.items()
    }
    if by_row and len(columns) > 1:
        rows = zip(*columns.values(), strict=True)
        columns = {"": [dict(zip(columns, row, strict=True)) for row in rows]}
    written = {name: b"[%b]" % b",".join(map(_dumps, rows)) for name, rows in columns.items()}
    if len(written) == 1:
        (content,) = written.values()
    else:
        named = (b"%b:%b" % (_dumps(name), rows) for name, rows in written.items())
        content = b"{%b}" % b",".join(named)
    return b'{"%b":%b}' % (b"predictions" if by_row else b"outputs", content)


def _dumps(content: Any) -> bytes:
    """Writes one row; between calls of this Python function, other threads run."""
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


def metadata(name: str, version: str, signatures: Signatures) -> dict[str, Any]:
    """Describes signatures in the form of TensorFlow Serving."""

    def tensor(name: str, dtype: str, shape: Sequence[int]) -> dict[str, Any]:
        kind = {"float32": "FLOAT"}.get(dtype, dtype.upper())
        dims = [{"size": str(size), "name": ""} for size in shape]
        info = {"dim": dims, "unknown_rank": False}
        return {"dtype": f"DT_{kind}", "tensor_shape": info, "name": name}

    described = {
        signature: {
            part: {name: tensor(name, *spec) for name, spec in specs.items()}
            for part, specs in zip(("inputs", "outputs"), inputs_and_outputs, strict=True)
        }
        | {"method_name": "tensorflow/serving/predict"}
        for signature, inputs_and_outputs in signatures.items()
    }
    return {
        "model_spec": {"name": name, "signature_name": "", "version": version},
        "metadata": {"signature_def": {"signature_def": described}},
    }


def refusal(error: Exception, request: Request) -> Refused:
    """Converts an error of a runtime to a `Refused`."""
    # Only TensorFlow's graphs read files; other inputs were checked before.
    if getattr(error, "error_code", None) != INVALID_ARGUMENT:
        return Refused(f"{type(error).__name__}: {error}", 500)
    files = [file for a in request.inputs.values() if a.dtype == object for file in a.flat]
    hint = f"; received text, expected {B64}" if any(map(bytes.isascii, files)) else ""
    # TensorFlow puts the names of graphs and nodes around the reason.
    reason = re.sub(r"(?s)^.*<stack traces unavailable>\s*|\s*\[\[.*|\[Op:.*", "", str(error))
    if assertion := re.search(r"(?s)assertion failed: \[(.*)\]", reason):
        reason = assertion[1].replace('\\"', '"')
    return Refused(shorten(reason, 300) + hint * ("base64" not in reason))


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() != {"b64"}


def _columns(instances: Any, max_images: int) -> Any:
    """Returns a list for each named input, or the list of values without names."""
    if not isinstance(instances, list) or not instances:
        received = reprlib.repr(instances)
        raise Refused(f"instances: expected a list of one or more. Received: {received}")
    check_count(len(instances), max_images)
    if not any(map(_is_named, instances)):
        return instances
    if not all(_is_named(row) and row.keys() == instances[0].keys() for row in instances):
        raise Refused("instances: expected the same inputs in each")
    return {name: [row[name] for row in instances] for name in instances[0]}


def check_count(count: int, max_images: int) -> None:
    """Refuses requests of more images than may wait."""
    if count > max_images:
        raise Refused(f"expected at most {max_images} images at a time. Received: {count}")


def _array(name: str, values: Any, dtype: str, shape: Sequence[int], max_images: int) -> np.ndarray:
    """Returns an array of exactly this dtype: no text for numbers, no fractions for integers."""

    def refused(received: object) -> Refused:
        expected = f"{dtype} of shape {tuple(shape)}, -1 for any size"
        return Refused(f"{name}: expected a list of {expected}. Received: {received}")

    if not isinstance(values, list):
        raise refused(reprlib.repr(values))
    check_count(len(values), max_images)
    is_text, is_float = dtype == "string", dtype.startswith("float")
    sizes, flat = [], [values]
    # Checks level by level, to the first list that does not fit: ragged lists cost NumPy minutes.
    for size in shape:
        first = flat[0] if flat else []
        sizes.append(len(first) if size < 0 and isinstance(first, list) else size)
        for index, row in enumerate(flat):
            if not isinstance(row, list) or len(row) != sizes[-1]:
                place = "".join(f"[{i}]" for i in np.unravel_index(index, sizes[:-1]))
                received = f"a list of {len(row)}" if isinstance(row, list) else type(row).__name__
                raise refused(f"{received} at {place}" if place else received)
        flat = list(chain.from_iterable(flat))
    if is_text:
        flat = list(map(_file, flat))
    kinds = set(map(type, flat)) - {bytes if is_text else int, *([float] * is_float)}
    if kinds:
        raise refused(", ".join(sorted(kind.__name__ for kind in kinds)))
    try:
        with np.errstate(over="raise"):
            return np.array(flat, object if is_text else dtype).reshape(sizes)
    except (OverflowError, FloatingPointError):
        raise refused("larger numbers") from None


def _file(value: Any) -> bytes:
    """Returns the bytes of text or of {"b64": ...}."""
    if isinstance(value, str):
        return value.encode()
    text = value.get("b64") if isinstance(value, dict) else None
    if not isinstance(text, str):
        raise Refused(f"expected {B64}. Received: {reprlib.repr(value)}")
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError as error:
        raise Refused(f"expected {B64}. Received: {text[:30]!r} ({error})") from None
