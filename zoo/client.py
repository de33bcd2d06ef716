"""Client of zoo.serve and TensorFlow Serving: `python -m zoo.client --model NAME photo.jpg`."""

if __name__ == "__main__":  # before imports of packages that may be missing
    from zoo.cli.main import Verb

    raise SystemExit(Verb("client").run())

import base64
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import quote, urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
    field_validator,
    model_validator,
)

from zoo.cli.main import Verb
from zoo.cli.settings import Settings
from zoo.data.image_files import DeepPixelsError, to_jpeg_or_png
from zoo.detection import objects
from zoo.errors import first_wrong, needs_extra, printable, shorten
from zoo.fields import OutputFile, named
from zoo.files import why_pointer
from zoo.inference.photos import Photos, check_replaces_none, find_photos
from zoo.inference.predictions import ClassScore, describe, write_json

# Limits of a request: images, and bytes if there is more than one image.
MAX_PHOTOS, MAX_BYTES = 8, 8 * 2**20
# Larger responses are refused: predictions take some kilobytes.
MAX_ANSWER_BYTES = 16 * 2**20
Side = Annotated[int, Field(ge=1, le=2**16)]  # side of an image, in pixels


class ClientConfig(Settings):
    """Prints the most probable classes of images, or their objects, from a server.

    The server has the REST API of TensorFlow Serving, and the model a SavedModel of
    python -m zoo.export, of a classifier or a detector. The server decodes and resizes images
    itself, as python -m zoo.predict does. Examples:

      python -m zoo.client --model lambda_resnet26t cat.jpg dog.jpg
      python -m zoo.client --model detector_lambda_resnet50 photo.jpg --output detections.png
      python -m zoo.client --url http://127.0.0.1:8080 --model lambda_resnet14 photos/
    """

    photos: Photos
    url: str = "http://127.0.0.1:8501"
    """The server: http://HOST:PORT or https://HOST:PORT."""
    model: str = Field(min_length=1)
    """Name of the model on the server."""
    model_version: int | None = Field(default=None, ge=0, lt=2**63)
    """Version of the model; None: the one that is served."""
    signature: str = Field(default="image_bytes", min_length=1)
    """Signature that takes the bytes of images and gives classes, labels and scores."""
    timeout: float = Field(default=60, gt=0, le=3600)
    """Seconds from the beginning of a request to the end of its answer."""
    threshold: float = Field(default=0.5, ge=0, le=1)
    """Detectors: score from which on objects are named and drawn."""
    output: Annotated[OutputFile, named(*objects.SUFFIXES)] | None = None
    """Also write every prediction (.json), or of a detector draw the images with their objects
    (.png)."""

    @field_validator("url")
    @classmethod
    def _of_http(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            valid = parts.hostname and parts.port != 0 and not (parts.query or parts.fragment)
        except ValueError:
            valid = False
        if not valid or parts.scheme not in ("http", "https"):
            expected = "expected http://HOST:PORT or https://HOST:PORT"
            raise ValueError(f"{expected}. Received: {url!r}")
        return url.rstrip("/")


class ServedPrediction(BaseModel):
    """Prediction of the server for an image, the highest score first."""

    model_config = ConfigDict(strict=True)

    classes: list[Annotated[int, Field(ge=0)]] = Field(min_length=1)
    labels: list[Annotated[str, Field(max_length=1000)]]
    # Rounding may lift a probability slightly above 1.
    scores: list[Annotated[float, Field(ge=0, le=1 + 1e-6, allow_inf_nan=False)]]
    boxes: list[Annotated[list[FiniteFloat], Field(min_length=4, max_length=4)]] | None = None
    masks: list[list[list[Annotated[int, Field(ge=0, le=255)]]]] | None = None
    sizes: tuple[Side, Side] | None = None

    @model_validator(mode="after")
    def _same_length(self) -> Self:
        given = (self.classes, self.labels, self.scores, self.boxes, self.masks)
        counts = [len(column) for column in given if column is not None]
        if len(set(counts)) > 1:
            raise ValueError(f"as many labels and scores as classes. Received: {counts}")
        return self

    def top(self) -> list[ClassScore]:
        """Returns the most probable classes."""
        columns = (self.classes, self.labels, self.scores)
        return [ClassScore(*score) for score in zip(*columns, strict=True)]

    def found(self, number: int) -> objects.Objects:
        """Returns the objects that a detector found; `number` is the id of the image."""
        found = []
        for place, box in enumerate(self.boxes or ()):
            # Score 0 is padding; boxes within the padding of the image are clipped to nothing.
            if self.scores[place] <= 0 or min(box[2:]) <= 0:
                continue
            one: dict[str, Any] = {
                "name": self.labels[place],
                "image_id": number,
                "category_id": self.classes[place],
                "bbox": [round(side, 3) for side in box],
                "score": round(self.scores[place], 5),
            }
            if self.masks is not None and self.sizes is not None:
                one["segmentation"] = objects.paste(self.masks[place], box, self.sizes)
            found.append(one)
        return found


class Predictions(BaseModel):
    """Response in row format."""

    predictions: list[ServedPrediction]


class Refused(Exception):
    """Error of a server that responds, but without predictions."""


# Function from the bytes of images to the response: JSON in row format. Raises `Refused`, or
# `TimeoutError` or `ConnectionError` without a response.
Send = Callable[[Sequence[bytes]], bytes]


def run(config: ClientConfig) -> None:
    """Reads the settings, checks the images, then requests predictions."""
    photos = find_photos(config.photos)
    check_replaces_none(config.output, photos)
    for photo in photos:
        if not os.access(photo, os.R_OK) or not photo.stat().st_size:
            raise ValueError(
                f"photos: expected a file to read that is not empty. Received: {str(photo)!r}"
            )
    objects.check_output(config.output, photos)
    found, classes = [], []
    with connect(config) as send:
        for photo, answer in predict_files(send, config, photos):
            if answer.boxes is not None:
                one = answer.found(len(found) + 1)
                found.append((photo, one))
                print(objects.describe(photo, one, config.threshold), flush=True)
                continue
            if config.output and config.output.suffix == ".png":
                raise ValueError(f"output: .png is for detectors. Received: {config.model} is none")
            classes.append((photo, answer.top()))
            print(describe(*classes[-1]), flush=True)
    if config.output is not None:
        if found:
            objects.write(found, config.model, config.threshold, config.output)
        else:
            write_json(config, classes, config.output)
        print(f"wrote {printable(config.output)}")


def predict_files(
    send: Send, config: ClientConfig, photos: Sequence[Path]
) -> Iterator[tuple[Path, ServedPrediction]]:
    """Yields each image with its prediction, or raises the reason of the server."""
    batch, size = [], 0
    for photo in photos:
        more = photo.stat().st_size
        if batch and (len(batch) == MAX_PHOTOS or size + more > MAX_BYTES):
            yield from _predict_batch(send, config, batch)
            batch, size = [], 0
        batch.append(photo)
        size += more
    yield from _predict_batch(send, config, batch)


def _predict_batch(
    send: Send, config: ClientConfig, photos: Sequence[Path]
) -> Iterator[tuple[Path, ServedPrediction]]:
    url, contents = config.url, list(map(_content, photos))
    try:
        content = send(contents)
        predictions = Predictions.model_validate_json(content).predictions
    except Refused as refusal:
        if len(photos) == 1:
            raise ValueError(f"{url} refused {photos[0]}: {shorten(str(refusal), 300)}") from None
        # Images are retried one by one: one of them may be faulty, or the batch too large.
        for photo in photos:
            yield from _predict_batch(send, config, [photo])
        return
    except (TimeoutError, ConnectionError) as error:
        late = isinstance(error, TimeoutError)
        why = f"within {config.timeout:g} s" if late else f"({shorten(str(error), 300)})"
        raise ValueError(f"{url} did not answer {why}; is a server running there?") from None
    except ValueError as error:
        is_json = isinstance(error, ValidationError)
        received = first_wrong(error, "the answer") if is_json else str(error)
        raise ValueError(
            f"expected classes, labels and scores from {config.signature!r} of {config.model!r} "
            f"at {url}. Received: {shorten(received, 300)}"
        ) from None
    if len(predictions) != len(photos):
        raise ValueError(f"{url}: expected {len(photos)} predictions. Received: {len(predictions)}")
    yield from zip(photos, predictions, strict=True)


def _content(photo: Path) -> bytes:
    content = photo.read_bytes()
    try:
        return to_jpeg_or_png(content)
    except DeepPixelsError as error:
        raise ValueError(f"photos: {printable(photo)}: {error}") from None
    except ValueError as error:
        if why_pointer(content):
            raise ValueError(f"photos: {printable(photo)}: {error}") from None
        return content  # the server reports the error


@contextmanager
def connect(config: ClientConfig) -> Iterator[Send]:
    """Opens a connection pool; nothing is sent yet."""
    with needs_extra("serve"):
        import requests
    version = "" if config.model_version is None else f"/versions/{config.model_version}"
    url = f"{config.url}/v1/models/{quote(config.model, safe='')}{version}:predict"

    def post(body: dict[str, Any]) -> bytes:
        content = bytearray()
        # This limit is between two bytes; it only ends requests that have been given up.
        timeout = config.timeout + 1
        with session.post(url, json=body, timeout=timeout, stream=True) as response:
            for part in response.iter_content(2**16):
                content += part
                if len(content) > MAX_ANSWER_BYTES:
                    raise ValueError(f"more than {MAX_ANSWER_BYTES >> 20} MiB")
        if response.status_code != 200:
            reason = content.decode(errors="replace")
            with suppress(ValueError, KeyError, TypeError):  # the response of another server
                reason = json.loads(reason)["error"]
            raise Refused(f"{response.status_code} {response.reason or ''}: {reason}")
        return bytes(content)

    def send(images: Sequence[bytes]) -> bytes:
        instances = [{"b64": base64.b64encode(image).decode()} for image in images]
        body = {"signature_name": config.signature, "instances": instances}
        try:
            return pool.apply_async(post, (body,)).get(config.timeout)
        except multiprocessing.TimeoutError:
            raise TimeoutError from None
        except requests.RequestException as error:
            cause: BaseException = error  # messages of requests and urllib3 are long
            while cause.__context__ is not None:
                cause = cause.__context__
            raise ConnectionError(str(cause)) from None

    # Its thread is a daemon, which does not keep the process from its end.
    with requests.Session() as session, ThreadPool(1) as pool:
        yield send


main = Verb("client")
