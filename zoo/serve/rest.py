"""JSON of TensorFlow Serving's REST interface, to and from named arrays.

https://www.tensorflow.org/tfx/serving/api_rest
"""

import base64
import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zoo.errors import needs_extra, shorten, unknown

with needs_extra("serve"):
    import orjson

DEFAULT = "serving_default"
B64 = 'standard base64 of a file in {"b64": "..."}, encoded once, without a prefix like "data:"'
INVALID_ARGUMENT = 3  # error code of TensorFlow

Spec = tuple[str, Sequence[int]]  # dtype and shape, -1 for any size
Signatures = Mapping[str, tuple[Mapping[str, Spec], Mapping[str, Spec]]]  # inputs and outputs


class Refused(Exception):
    """Reason why a request has no predictions, and the HTTP status."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(shorten(" ".join(reason.split()), 500))
        self.status = status


@dataclass(frozen=True)
class Request:
    """A request for predictions."""

    signature: str
    inputs: Mapping[str, np.ndarray]  # of the same length, at least 1
    by_row: bool  # instances and predictions, else inputs and outputs


def read_request(body: bytes, signatures: Signatures) -> Request:
    """Reads and checks the body of a request; raises `Refused`."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refused(f"expected JSON, which has no NaN and no Infinity ({error})") from None
    if not isinstance(content, dict) or ("instances" in content) == ("inputs" in content):
        raise Refused("expected a JSON object with either 'instances' or 'inputs'")
    signature = content.get("signature_name") or DEFAULT
    if not isinstance(signature, str) or signature not in signatures:
        raise Refused(f"no such signature_name. {unknown(str(signature), signatures)}")
    specs, _ = signatures[signature]
    by_row = "instances" in content
    values = _columns(content["instances"]) if by_row else content["inputs"]
    if not _is_named(values) and len(specs) == 1:
        values = dict.fromkeys(specs, values)
    if not _is_named(values) or values.keys() != specs.keys():
        received = reprlib.repr(sorted(values)) if _is_named(values) else "no names"
        raise Refused(f"expected the inputs {sorted(specs)}. Received: {received}")
    inputs = {name: _array(name, values[name], *specs[name]) for name in specs}
    if len({len(array) for array in inputs.values()} - {0}) != 1:
        raise Refused("expected one or more images, as many in every input")
    return Request(signature, inputs, by_row)


def write_response(outputs: Mapping[str, np.ndarray], by_row: bool) -> bytes:
    """Writes named outputs as rows of predictions or as columns."""
    columns: dict[str, Any] = {
        name: np.char.decode(array, "utf-8", "replace").tolist()
        if array.dtype.kind == "S"
        else np.ascontiguousarray(array)
        for name, array in outputs.items()
    }
    content: Any = columns
    if len(columns) == 1:
        (content,) = columns.values()
    elif by_row:
        rows = zip(*columns.values(), strict=True)
        content = [dict(zip(columns, row, strict=True)) for row in rows]
    name = "predictions" if by_row else "outputs"
    return orjson.dumps({name: content}, option=orjson.OPT_SERIALIZE_NUMPY)


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
            for part, specs in zip(("inputs", "outputs"), both, strict=True)
        }
        | {"method_name": "tensorflow/serving/predict"}
        for signature, both in signatures.items()
    }
    return {
        "model_spec": {"name": name, "signature_name": "", "version": version},
        "metadata": {"signature_def": {"signature_def": described}},
    }


def refusal(error: Exception, request: Request) -> Refused:
    """Describes an error of a runtime."""
    # Only TensorFlow's graphs read files; other inputs were checked before.
    if getattr(error, "error_code", None) != INVALID_ARGUMENT:
        return Refused(f"{type(error).__name__}: {error}", 500)
    files = [one for a in request.inputs.values() if a.dtype == object for one in a.flat]
    hint = f"; received text, expected {B64}" if any(map(bytes.isascii, files)) else ""
    # TensorFlow puts the names of graphs and nodes around the reason.
    reason = re.sub(r"(?s)^.*<stack traces unavailable>\s*|\s*\[\[.*|\[Op:.*", "", str(error))
    if assertion := re.search(r"(?s)assertion failed: \[(.*)\]", reason):
        reason = assertion[1].replace('\\"', '"')
    return Refused(shorten(reason, 300) + hint * ("base64" not in reason))


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() != {"b64"}


def _columns(instances: Any) -> Any:
    """Returns a list for each named input, or the list of values without names."""
    if not isinstance(instances, list) or not instances:
        received = reprlib.repr(instances)
        raise Refused(f"instances: expected a list of one or more. Received: {received}")
    if not any(map(_is_named, instances)):
        return instances
    if not all(_is_named(row) and row.keys() == instances[0].keys() for row in instances):
        raise Refused("instances: expected the same inputs in each")
    return {name: [row[name] for row in instances] for name in instances[0]}


def _array(name: str, values: Any, dtype: str, shape: Sequence[int]) -> np.ndarray:
    """Returns an array of exactly this type; text is no number, and fractions are no integers."""

    def refused(received: object) -> Refused:
        expected = f"{dtype} of shape {tuple(shape)}, -1 for any size"
        return Refused(f"{name}: expected a list of {expected}. Received: {received}")

    if not isinstance(values, list):
        raise refused(reprlib.repr(values))
    is_text, is_float = dtype == "string", dtype.startswith("float")
    try:
        # Of objects, because text among numbers would make all of them as long as the text.
        array = np.array([*map(_file, values)] if is_text else values, object)
        kinds = set(map(type, array.flat)) - {bytes if is_text else int, *([float] * is_float)}
        if list in kinds:
            raise ValueError
    except ValueError:
        raise refused("lists of uneven lengths") from None
    if kinds:
        raise refused(", ".join(kind.__name__ for kind in kinds))
    if len(shape) != array.ndim or any(a not in (-1, b) for a, b in zip(shape, array.shape)):  # noqa: B905
        raise refused(array.shape)
    try:
        with np.errstate(over="raise"):
            return array if is_text else array.astype(dtype)
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
