"""Evaluates a classifier on test images: `python -m zoo.evaluate --run runs/FOLDER`."""

from typing import TYPE_CHECKING, Any, Self

from pydantic import model_validator

from zoo.config import DataConfig
from zoo.config.model_options import ModelOptions
from zoo.errors import require
from zoo.evaluate.variants import CORRUPTED, REAL, SPLITS, class_subset, dataset_of
from zoo.fields import AnyOutputFolder
from zoo.files import location
from zoo.run_folder import load_config

if TYPE_CHECKING:
    from zoo.evaluate.corruptions import CorruptionErrors
    from zoo.evaluate.metrics import Evaluation
    from zoo.inference.classifier import Classifier


class EvaluateConfig(ModelOptions):
    r"""Measures accuracy and loss of a model on test images, overall and for each class.

    Pass --run for the model of a finished run. Its test images are the default; --data settings
    name others of the same classes, or of some of them: then the other outputs do not count. Or
    pass --model and --data: a published model, or one by its name with --weights. Examples:

      python -m zoo.evaluate --run runs/digits --output runs/digits/evaluation --calibrate true
      python -m zoo.evaluate --run runs/imagenet --data.name imagenet_a
      python -m zoo.evaluate --run runs/imagenet --data.name imagenet2012_corrupted
      python -m zoo.evaluate --model lambda_resnet26t --weights imagenet --data.source tfds \
        --data.name imagenet2012 --data.dir gs://BUCKET/tensorflow_datasets
    """

    averaged: bool = True
    """Moving averages of the weights, if --run has them; false: the raw weights."""
    calibrate: bool = False
    """Fit a temperature, by which logits are divided, to a fixed random half of the test images,
    and print its effect on the other half."""
    output: AnyOutputFolder | None = None
    """Also write evaluation.json, with every class, and figures of confusions, the most confident
    errors, reliability and thresholds of the score here."""
    data: DataConfig = DataConfig()

    @model_validator(mode="before")
    @classmethod
    def _with_images_of_run(cls, settings: dict[str, Any]) -> dict[str, Any]:
        run, data = settings.get("run"), settings.get("data") or {}
        if not isinstance(data, dict) or not isinstance(data.get("name", ""), str | None):
            return settings  # to be refused
        data = dict(data)
        # Variants of ImageNet have one split with labels, not the run's.
        if (split := SPLITS.get(dataset_of(data.get("name")))) is not None:
            data.setdefault("test_split", split)
        if run is not None:
            own = load_config(location(run)).data.model_dump()
            # Another source has none of the settings of the run's own.
            if data.get("source", own["source"]) == own["source"]:
                data = own | data
        return {**settings, "data": data}

    @model_validator(mode="after")
    def _one_label_to_calibrate(self) -> Self:
        refused = dataset_of(self.data.name) == REAL or self.is_of_corruptions
        expected = "calibrate: expected one set of images with one label each, such as imagenet2012"
        require(not self.calibrate or not refused, expected, f"data.name={self.data.name}")
        return self

    @property
    def is_of_corruptions(self) -> bool:
        """Whether `data.name` means all corruptions and severities, not one of them."""
        name = self.data.name or ""
        return dataset_of(name) == CORRUPTED and "/" not in name


def run(config: EvaluateConfig) -> None:
    """Evaluates a classifier, prints the results and writes them to `output`."""
    from zoo.evaluate import corruptions, report

    classifier, result = measure(config)
    place = " ".join(filter(None, (config.data.source, config.data.name)))
    title = f"{classifier.name}{'' if config.averaged else ', raw weights,'} on {place}"
    settings = config.model_dump(mode="json", exclude={"output"})
    if isinstance(result, corruptions.CorruptionErrors):
        corruptions.print_table(result, title)
        if config.output is not None:
            corruptions.write(result, title, settings, config.output)
        return
    if len(result.names) < len(classifier.class_names):
        title += f", {len(result.names):,} of {len(classifier.class_names):,} classes"
    report.print_tables(result, title)
    if config.output is not None:
        report.write(result, title, settings, config.output)


def measure(config: EvaluateConfig) -> tuple["Classifier", "Evaluation | CorruptionErrors"]:
    """Loads a network and test images of its classes, and evaluates it."""
    from zoo.evaluate import corruptions
    from zoo.evaluate.classes import match_classes
    from zoo.evaluate.metrics import evaluate
    from zoo.inference.source.kinds import choose

    source = choose(config) if config.averaged else choose(config).without_averages()
    if config.is_of_corruptions:
        return corruptions.run(source, config.data, config.precision)
    classifier, images = source.load_with_images(config.data)
    classifier = classifier.computing_in(config.precision)
    classes = match_classes(classifier, images.class_names, class_subset(config.data.name))
    size = config.data.batch_size
    return classifier, evaluate(classifier, images.test, size, classes, config.calibrate)
