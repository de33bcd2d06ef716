"""A server that speaks TensorFlow Serving's REST and gRPC, for the tests of its client.

`python -P server.py FOLDER` serves the latest version of every `FOLDER/NAME/VERSION` on free ports
of 127.0.0.1, which it prints as JSON. It loads SavedModels with TensorFlow alone.
"""

import base64
import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

# TensorFlow imports Keras wherever it is installed; None makes every import of it fail.
for name in ("keras", "tf_keras", "lambda_keras", "zoo"):
    sys.modules[name] = None

import grpc  # noqa: E402
import tensorflow as tf  # noqa: E402
import uvicorn  # noqa: E402
from starlette.applications import Starlette  # noqa: E402
from starlette.concurrency import run_in_threadpool  # noqa: E402
from starlette.requests import Request  # noqa: E402
from starlette.responses import Response  # noqa: E402
from starlette.routing import Route  # noqa: E402
from tensorflow_serving.apis import predict_pb2  # noqa: E402
from tensorflow_serving.apis import prediction_service_pb2_grpc as service  # noqa: E402

HOST = "127.0.0.1"
MAX_REQUEST = 16 * 2**20  # bytes
BY_NUMBER = {code.value[0]: code for code in grpc.StatusCode}
# As TensorFlow Serving translates them; all others are 500.
HTTP_STATUS = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.FAILED_PRECONDITION: 412,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
}


class Refusal(Exception):
    """Why a request gets no predictions."""

    def __init__(self, code: grpc.StatusCode, message: str):
        super().__init__(message)
        self.code = code


def invalid(message: str) -> Refusal:
    return Refusal(grpc.StatusCode.INVALID_ARGUMENT, message)


@dataclass
class Model:
    """The latest version of a SavedModel."""

    version: int
    loaded: object  # has to live as long as its signatures

    @classmethod
    def load(cls, folder: Path) -> "Model":
        version = max(int(p.name) for p in folder.iterdir() if p.name.isdigit())
        return cls(version, tf.saved_model.load(str(folder / str(version))))

    def signature(self, name: str):
        signatures = self.loaded.signatures
        if name not in signatures:
            raise invalid(f'Serving signature name: "{name}" not found in signature def')
        return signatures[name]


class Models:
    """All that is served."""

    def __init__(self, folder: Path):
        exported = [p for p in folder.iterdir() if any(p.glob("[0-9]*/saved_model.pb"))]
        self._models = {path.name: Model.load(path) for path in exported}

    def find(self, name: str, version: int | None) -> Model:
        model = self._models.get(name)
        if model is None or version not in (None, model.version):
            which = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            message = f"Servable not found for request: {which}"
            raise Refusal(grpc.StatusCode.NOT_FOUND, message)
        return model


def specs_of(signature) -> dict[str, tf.TensorSpec]:
    return signature.structured_input_signature[1]


def run(signature, inputs: dict) -> dict:
    """Returns the outputs as arrays, or refuses what the graph refuses."""
    specs = specs_of(signature)
    if set(inputs) != set(specs):
        raise invalid(f"expected the inputs {sorted(specs)}. Received: {sorted(inputs)}")
    try:
        tensors = {name: tf.constant(value, specs[name].dtype) for name, value in inputs.items()}
    except (TypeError, ValueError) as error:
        raise invalid(str(error)) from None
    for name, tensor in tensors.items():
        if not specs[name].is_compatible_with(tensor):
            raise invalid(f"{name}: expected {specs[name]}. Received: shape {tensor.shape}")
    try:
        return {name: output.numpy() for name, output in signature(**tensors).items()}
    except tf.errors.OpError as error:
        raise Refusal(BY_NUMBER[error.error_code], error.message) from None


# REST: https://www.tensorflow.org/tfx/serving/api_rest


def from_json(value):
    """Returns the value with bytes in place of text and of {"b64": ...}."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and set(value) == {"b64"}:
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (TypeError, ValueError) as error:
            raise invalid(f"Unable to base64 decode: {error}") from None
    if isinstance(value, dict):
        raise invalid(f"expected values or b64. Received: an object with {sorted(value)}")
    return value


def to_json(name: str, value):
    """Returns text in place of bytes; {"b64": ...} where the output is named *_bytes."""
    if isinstance(value, list):
        return [to_json(name, item) for item in value]
    if isinstance(value, bytes):
        as_b64 = name.endswith("_bytes")
        return {"b64": base64.b64encode(value).decode()} if as_b64 else value.decode()
    return value


def is_named(value) -> bool:
    return isinstance(value, dict) and set(value) != {"b64"}


def predict_json(models: Models, name: str, version: int | None, body: bytes) -> dict:
    try:
        request = json.loads(body)
    except ValueError as error:
        raise invalid(f"JSON Parse error: {error}") from None
    if not isinstance(request, dict) or ("instances" in request) == ("inputs" in request):
        raise invalid("expected an object with either 'instances' or 'inputs'")
    model = models.find(name, version)
    signature = model.signature(request.get("signature_name", "serving_default"))
    by_row = "instances" in request
    values = request["instances"] if by_row else request["inputs"]
    if by_row:
        values = columns_of(values)
    if not is_named(values):
        if len(specs_of(signature)) != 1:
            raise invalid(f"expected named inputs: {sorted(specs_of(signature))}")
        values = {next(iter(specs_of(signature))): values}
    inputs = {key: from_json(value) for key, value in values.items()}
    outputs = {key: to_json(key, value.tolist()) for key, value in run(signature, inputs).items()}
    single = next(iter(outputs.values())) if len(outputs) == 1 else None
    if not by_row:
        return {"outputs": outputs if single is None else single}
    rows = [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
    return {"predictions": rows if single is None else single}


def columns_of(instances):
    """Returns a list for each named input; the list itself where it has values without names."""
    if not isinstance(instances, list) or not instances:
        raise invalid("expected a list of instances that is not empty")
    if not any(is_named(instance) for instance in instances):
        return instances
    if not all(is_named(row) and set(row) == set(instances[0]) for row in instances):
        raise invalid("expected the same inputs in every instance")
    return {key: [row[key] for row in instances] for key in instances[0]}


def rest_app(models: Models) -> Starlette:
    def answer(content: dict, status: int = 200) -> Response:
        return Response(json.dumps(content), status, media_type="application/json")

    async def predict(request: Request) -> Response:
        body, size = bytearray(), 0
        async for chunk in request.stream():  # to its end, else the client sees a broken connection
            size += len(chunk)
            if size <= MAX_REQUEST:
                body += chunk
        if size > MAX_REQUEST:
            return answer({"error": f"expected at most {MAX_REQUEST} bytes. Received: {size}"}, 413)
        where = request.path_params["name"], request.path_params.get("version")
        try:
            return answer(await run_in_threadpool(predict_json, models, *where, bytes(body)))
        except Refusal as refusal:
            return answer({"error": str(refusal)}, HTTP_STATUS.get(refusal.code, 500))

    async def status(request: Request) -> Response:
        try:
            version = models.find(request.path_params["name"], None).version
        except Refusal as refusal:
            return answer({"error": str(refusal)}, HTTP_STATUS[refusal.code])
        ok = {"error_code": "OK", "error_message": ""}
        state = {"version": str(version), "state": "AVAILABLE", "status": ok}
        return answer({"model_version_status": [state]})

    return Starlette(
        routes=[
            Route("/v1/models/{name}:predict", predict, methods=["POST"]),
            Route("/v1/models/{name}/versions/{version:int}:predict", predict, methods=["POST"]),
            Route("/v1/models/{name}", status),
        ]
    )


class PredictionService(service.PredictionServiceServicer):
    def __init__(self, models: Models):
        self._models = models

    def Predict(self, request, context):
        try:
            return self._predict(request)
        except Refusal as refusal:
            context.abort(refusal.code, str(refusal))

    def _predict(self, request):
        spec = request.model_spec
        version = spec.version.value if spec.HasField("version") else None
        model = self._models.find(spec.name, version)
        signature = model.signature(spec.signature_name or "serving_default")
        try:
            inputs = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
        except (TypeError, ValueError) as error:
            raise invalid(str(error)) from None
        response = predict_pb2.PredictResponse()
        response.model_spec.CopyFrom(spec)
        response.model_spec.version.value = model.version
        for name, value in run(signature, inputs).items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
        return response


def main(folder: str) -> None:
    models = Models(Path(folder))
    options = [("grpc.max_receive_message_length", MAX_REQUEST)]
    grpc_server = grpc.server(ThreadPoolExecutor(8), options=options)
    service.add_PredictionServiceServicer_to_server(PredictionService(models), grpc_server)
    grpc_port = grpc_server.add_insecure_port(f"{HOST}:0")
    grpc_server.start()
    with socket.create_server((HOST, 0)) as rest_socket:
        print(json.dumps({"rest": rest_socket.getsockname()[1], "grpc": grpc_port}), flush=True)
        rest_server = uvicorn.Server(uvicorn.Config(rest_app(models), log_level="warning"))
        rest_server.run(sockets=[rest_socket])
    grpc_server.stop(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
