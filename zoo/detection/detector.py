"""A trained detector, its detections, and its sources: a finished run, or a published network."""

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import tensorflow as tf
from pydantic import BaseModel, Field, ValidationError
from safetensors.numpy import save

from lambda_keras.weights.files import read_safetensors
from lambda_keras.weights.fit import check_finite, check_fit
from zoo import run_folder
from zoo.detection.coco import Json
from zoo.detection.config import DetectionConfig, DetectorConfig
from zoo.detection.experiment import Task, create_experiment, infer, precision, to_coco
from zoo.detection.shards import Labels, check_shape
from zoo.errors import first_wrong, needs_extra
from zoo.files import find_pointer, in_bucket
from zoo.inference.images import Image, read_pixels, several
from zoo.inference.predictions import check_outputs
from zoo.inference.source import published
from zoo.inference.source.base import LICENSE, Source, fixed_size, measured_at
from zoo.model_card import LABELS, versions

with needs_extra("detection"):
    from official.vision.serving import detection


SECONDS = "training_seconds"  # name in checkpoints


class Precision(BaseModel):
    """Average precision of boxes or masks in percent; None where there are no objects."""

    AP: float | None


class TestMetrics(BaseModel):
    """Test metrics of boxes, and of masks if the detector predicts them."""

    box: Precision
    mask: Precision | None = None


class Metrics(Labels):
    """Fields of a detector's `metrics.json` that commands read."""

    test: TestMetrics
    test_images: int = Field(ge=1)
    training_images: int = Field(ge=1)


class DetectionModule(detection.DetectionModule):
    """The Model Garden's serving module, with boxes clipped to the images."""

    def serve(self, images: tf.Tensor) -> dict[str, Any]:
        resized, anchors, info = self.preprocess(images)
        return infer(self.model, resized, anchors, info)


def title(name: str, masks: bool) -> str:
    """Returns kind and backbone of a detector, such as "Mask R-CNN on lambda_resnet50"."""
    return f"{'Mask' if masks else 'Faster'} R-CNN on {name}"


@dataclass(frozen=True)
class Detector:
    """A trained Mask R-CNN, or Faster R-CNN without masks, in float32."""

    name: str  # of the backbone in the zoo
    model: Any  # of the Model Garden, in tf_keras
    experiment: Any  # settings of the Model Garden
    data: Labels

    @property
    def categories(self) -> Mapping[int, str]:
        """Names of the categories by id."""
        return self.data.categories

    @classmethod
    def from_run(cls, folder: Path, image_size: int | None = None) -> Self:
        """Loads the detector of a finished run, maybe for images of another size."""
        config = run_folder.load_config(folder, DetectionConfig)
        config = config.model_copy(update={"output_dir": folder})
        metrics = load_metrics(folder)
        with fixed_size(config.model.image_size, image_size):
            config = at_size(config, image_size)
            return cls.restore(config, metrics, metrics.test.mask is not None)

    @classmethod
    def restore(cls, config: DetectionConfig, data: Labels, masks: bool) -> Self:
        """Builds the detector of a run and restores its last checkpoint."""
        folder = config.output_dir / run_folder.CHECKPOINTS
        why = "" if in_bucket(folder) else find_pointer(folder)
        path = None if why else tf.train.latest_checkpoint(str(folder))
        if path is None:
            received = why or "none"
            raise ValueError(f"run: expected checkpoints in {str(folder)!r}. Received: {received}")
        detector = cls.build(config, data, masks)
        model = detector.model
        try:
            # Shapes are compared first: TensorFlow warns of every variable that is not restored.
            if shapes_of(path) != Counter(tuple(variable.shape) for variable in model.variables):
                raise ValueError("other shapes or categories")
            status = tf.train.Checkpoint(model=model).read(path)
            status.assert_existing_objects_matched().expect_partial()
            for name, variable in detector.named_variables().items():
                check_finite(name, variable.numpy(), path)
        except (AssertionError, ValueError, IndexError, RuntimeError, tf.errors.OpError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ValueError(f"run: {path} is damaged or of another detector: {reason}") from None
        return detector

    @classmethod
    def build(cls, config: DetectionConfig, data: Labels, masks: bool) -> Self:
        """Builds a detector with random weights; see `restore`."""
        # Weights come from a file; initial weights of training are not needed.
        model = config.model.model_copy(update={"weights": None})
        training = config.training.model_copy(update={"precision": "float32"})
        config = config.model_copy(update={"model": model, "training": training})
        experiment = create_experiment(config, data.categories, masks, data.most_objects)
        with precision("float32"):
            return cls(model.name, Task(experiment).build_model(), experiment, data)

    def save_weights(self, path: Path) -> None:
        """Writes all weights as safetensors, by their paths in the model."""
        arrays = {name: variable.numpy() for name, variable in self.named_variables().items()}
        path.write_bytes(save(arrays))

    def load_weights(self, path: Path) -> None:
        """Reads a file of `save_weights`, after comparing all names, shapes and dtypes."""
        arrays, _ = read_safetensors(path)
        variables = self.named_variables()
        expected = {
            name: (tuple(variable.shape), variable.dtype.name)
            for name, variable in variables.items()
        }
        received = {name: (array.shape, array.dtype.name) for name, array in arrays.items()}
        check_fit(self.model, str(path), "array", expected, received)
        for name, array in arrays.items():
            check_finite(name, array, str(path))
            variables[name].assign(array)

    def named_variables(self) -> dict[str, tf.Variable]:
        """Returns variables by their paths in the model: names of tf_keras count per process."""
        paths = self.model.get_weight_paths()
        return {path.replace(".", "/"): variable for path, variable in paths.items()}

    @property
    def masks(self) -> bool:
        """Whether it predicts masks."""
        return self.experiment.task.model.include_mask

    @property
    def title(self) -> str:
        """Kind and backbone, such as "Mask R-CNN on lambda_resnet50"."""
        return title(self.name, self.masks)

    @property
    def image_size(self) -> int:
        """Height and width that images are resized to fit, in pixels."""
        return self.experiment.task.model.input_size[0]

    @cached_property
    def module(self) -> DetectionModule:
        """Serving module for export, from images to detections."""
        return DetectionModule(
            self.experiment,
            batch_size=None,
            input_image_size=[self.image_size, self.image_size],
            model=self.model,
        )

    @cached_property
    def _infer(self) -> Any:
        images = tf.TensorSpec((None, None, None, 3), tf.uint8)  # one trace for all sizes
        return self.module.inference_from_image_tensors.get_concrete_function(images)

    def predict(self, images: np.ndarray) -> dict[str, np.ndarray]:
        """Runs the detector on uint8 images of shape `(count, height, width, 3)`.

        Returns:
            `detection_boxes` (count, n, 4), each [top, left, bottom, right] in pixels of the
            resized image, `detection_classes`, `detection_scores`, `num_detections`, with masks
            `detection_masks`, and `image_info` (count, 4, 2), of which row 2 is the scale; n is
            `max_num_detections`.

        Raises:
            ValueError: If outputs are not finite.
        """
        outputs = self._infer(tf.constant(images))
        arrays = {name: value.numpy() for name, value in outputs.items()}
        check_outputs(self.name, arrays)
        return arrays

    def batches(self, files: str, batch_size: int) -> Iterable[Any]:
        """Creates batches of the images of shards, for `detect_batches`."""
        data = copy.deepcopy(self.experiment.task.validation_data)
        data.override({"input_path": files, "global_batch_size": batch_size}, is_strict=True)
        return Task(self.experiment).build_inputs(data)

    def detect_batches(self, batches: Iterable[Any]) -> Iterator[list[Json]]:
        """Yields the objects in the images of each batch, in the form of `detect`."""
        task = Task(self.experiment)
        run = tf.function(lambda *inputs: task.validation_step(inputs, self.model))
        for images, labels in batches:
            yield task.aggregate_logs(step_outputs=run(images, labels))["found"]

    def detect(self, image: np.ndarray, number: int = 0) -> list[Json]:
        """Returns the objects in an image, in COCO's format of results."""
        check_shape(image.shape[0], image.shape[1], self.image_size)
        return to_coco(self.predict(image[None]), [number])

    def __call__(self, images: Image | Sequence[Image], threshold: float = 0.5) -> list[Any]:
        """Finds objects in images of any size.

        Args:
            images: One image or several, as for a `Classifier`.
            threshold: Minimum score of objects, from 0 to 1. Defaults to 0.5.

        Returns:
            Objects of an image, the highest score first: dictionaries in COCO's format of results
            with the `name` of the category, `category_id` as in the training annotations, `bbox`
            (left, top, width, height in pixels), `score`, and, with masks, `segmentation`, an RLE.
            A list of them for one image, a list of such lists for several.

        Raises:
            ValueError: If the threshold is not from 0 to 1, or an image cannot be read.
        """
        if not (isinstance(threshold, Real) and 0 <= threshold <= 1):
            raise ValueError(f"threshold: expected a score from 0 to 1. Received: {threshold!r}")
        every, is_one = several(images)
        results = []
        for number, image in enumerate(every, start=1):
            objects = self.detect(read_pixels(image), number)
            certain = [obj for obj in objects if obj["score"] >= threshold]
            results.append([{"name": self.name_of(obj["category_id"]), **obj} for obj in certain])
            for obj in results[-1]:
                obj["category_id"] = self.data.file_ids.get(obj["category_id"], obj["category_id"])
        return results[0] if is_one else results

    def name_of(self, category: int) -> str:
        """Returns the name of a category; the number for ids without a category."""
        return self.categories.get(category, str(category))

    def labels(self) -> list[str]:
        """Returns the lines of `labels.txt`: ids and names of the categories."""
        return [f"{number}: {name}" for number, name in self.categories.items()]


def shapes_of(path: str) -> Counter[tuple[int, ...]]:
    """Counts the shapes of a detector's variables in a checkpoint, without optimizer variables."""
    training = ("optimizer/", "global_step/", "save_counter/", f"{SECONDS}/")
    return Counter(
        tuple(shape)
        for name, shape in tf.train.list_variables(path)
        if name.endswith("/.ATTRIBUTES/VARIABLE_VALUE")
        and not name.startswith(training)
        and "/.OPTIMIZER_SLOT/" not in name
    )


def load_metrics(folder: Path) -> Metrics:
    """Returns the results of a finished run of a detector."""
    expected = "run: expected the metrics.json of a detector"
    return run_folder.read_json(Metrics, folder / run_folder.METRICS, expected)


class DetectorDescription(Labels, published.Description):
    """The description of a detector in `lambda_keras.json`; `heads` are as in its settings."""

    task: Literal["detection"]
    image_size: int
    heads: dict[str, Any]
    masks: bool
    test: TestMetrics
    test_images: int = Field(ge=1)

    def config(self) -> DetectionConfig:
        model = self.model_dump(include={"overrides", "image_size", "heads"})
        return DetectionConfig.model_validate({"model": {"name": self.model, **model}})


@dataclass(frozen=True)
class Run(Source[Detector]):
    """A run folder, local or gs://."""

    folder: Path
    image_size: int | None = None  # None: as in training

    def load(self) -> Detector:
        return Detector.from_run(self.folder, self.image_size)

    def card(self) -> dict[str, str]:
        metrics = load_metrics(self.folder)
        trained_size = run_folder.load_config(self.folder, DetectionConfig).model.image_size
        measured = measured_at(trained_size, self.image_size)
        return {
            "Weights": f"run {self.folder.resolve().name}",
            "Trained on": f"{metrics.training_images:,} images",
            **average_precision(metrics.test, metrics.test_images, measured),
            "License": LICENSE,
        }


@dataclass(frozen=True)
class Published(Source[Detector]):
    """A published network: a folder, or its address on the hub."""

    place: str
    image_size: int | None = None  # None: as in training

    def load(self) -> Detector:
        described, weights = published.read(self.place, DetectorDescription)
        with fixed_size(described.image_size, self.image_size):
            config = at_size(described.config(), self.image_size)
            with published.bounded_by(weights):
                detector = Detector.build(config, described, described.masks)
            detector.load_weights(weights)
        return detector

    def card(self) -> dict[str, str]:
        described, weights = published.read(self.place, DetectorDescription)
        measured = measured_at(described.image_size, self.image_size)
        precision = average_precision(described.test, described.test_images, measured)
        return described.weights_fields(self.place, weights) | precision


def choose(settings: Any) -> Source[Detector]:
    """Returns the source that the settings of a command name."""
    size = getattr(settings, "image_size", None)
    return Published(settings.model, size) if settings.run is None else Run(settings.run, size)


def at_size(config: DetectionConfig, image_size: int | None) -> DetectionConfig:
    """Returns the settings of a detector for images of another size; None: its own size."""
    if image_size is None:
        return config
    model = {**config.model.model_dump(), "image_size": image_size}
    try:
        return config.model_copy(update={"model": DetectorConfig.model_validate(model)})
    except ValidationError as error:
        raise ValueError(first_wrong(error, "model")) from None


def detector_fields(detector: Detector) -> dict[str, str]:
    """Returns card fields about a detector and its images."""
    return {
        "Detector": f"{detector.title}, of TensorFlow's Model Garden",
        "Images": f"resized to fit {detector.image_size} x {detector.image_size} pixels",
        "Categories": f"{len(detector.categories)}, with their ids in {LABELS}",
        "Written with": versions("lambda_keras", "tensorflow", "tf-models-official"),
    }


def average_precision(test: TestMetrics, images: int, measured: str = "") -> dict[str, str]:
    """Returns card fields about the AP on test images; `measured` is from `measured_at`."""
    fields = {"Box AP": f"{test.box.AP} ({images:,} test images{measured})"}
    if test.mask is not None:
        fields["Mask AP"] = f"{test.mask.AP} ({images:,} test images{measured})"
    return fields
