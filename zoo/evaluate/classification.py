"""Evaluates a classifier on test images: `python -m zoo.evaluate --run runs/FOLDER`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import model_validator

from zoo.cli.model_options import ModelOptions
from zoo.cli.settings import OutputFolder
from zoo.config import DataConfig
from zoo.files import location
from zoo.run_folder import load_config

if TYPE_CHECKING:
    from zoo.evaluate.metrics import Evaluation
    from zoo.inference.classifier import Classifier


class EvaluateConfig(ModelOptions, cli_prog_name="python -m zoo.evaluate"):
    r"""Measures accuracy and loss of a model on test images, overall and for each class.

    Pass --run for the model of a finished run. Its test images are the default; --data settings
    name others of the same classes. Or pass --model and --data: a model of zoo.publish, or one by
    its name with --weights. Examples:

      python -m zoo.evaluate --run runs/digits --output runs/digits/evaluation
      python -m zoo.evaluate --run runs/imagenet --data.name imagenet_v2 --data.test_split test
      python -m zoo.evaluate --model lambda_resnet26t --weights imagenet --data.source tfds \
        --data.name imagenet2012 --data.dir gs://BUCKET/tensorflow_datasets
    """

    averaged: bool = True
    """Moving averages of the weights, if --run has them; false: the raw weights."""
    output: OutputFolder | None = None
    """Also write evaluation.json, with every class, and figures of confusions, the most confident
    errors and reliability here."""
    data: DataConfig = DataConfig()

    @model_validator(mode="before")
    @classmethod
    def _with_images_of_run(cls, settings: dict[str, Any]) -> dict[str, Any]:
        run = settings.get("run")
        if run is None:
            return settings
        own = load_config(location(run)).data.model_dump()
        data = settings.get("data") or {}
        # Another source has none of the settings of the run's own.
        if data.get("source", own["source"]) == own["source"]:
            data = own | data
        return {**settings, "data": data}


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then evaluates."""
    config = EvaluateConfig.from_command_line(arguments)
    from zoo.evaluate import report

    classifier, result = run(config)
    place = " ".join(filter(None, (config.data.source, config.data.name)))
    title = f"{classifier.name}{'' if config.averaged else ', raw weights,'} on {place}"
    report.print_tables(result, report.readable(classifier.class_names), title)
    if config.output is not None:
        settings = config.model_dump(mode="json", exclude={"output"})
        report.write(result, classifier.class_names, title, settings, config.output)


def run(config: EvaluateConfig) -> tuple["Classifier", "Evaluation"]:
    """Loads a network and test images of its classes, and evaluates it."""
    from zoo.evaluate.metrics import check_classes, evaluate
    from zoo.inference.source.kinds import choose

    source = choose(config) if config.averaged else choose(config).without_averages()
    classifier, images = source.load_with_images(config.data)
    check_classes(classifier, images.class_names)
    return classifier, evaluate(classifier, images.test, config.data.batch_size)
