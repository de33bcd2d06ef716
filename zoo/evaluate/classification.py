"""Evaluates a classifier on test images: `python -m zoo.evaluate --run runs/FOLDER`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import model_validator

from zoo.cli.tasks import TASKS, load
from zoo.config import DataConfig
from zoo.evaluate.extension import EvaluateOptions, Extension, Report
from zoo.evaluate.variants import SPLITS, class_subset, dataset_of
from zoo.fields import AnyOutputFolder
from zoo.files import location
from zoo.run_folder import load_config

if TYPE_CHECKING:
    from zoo.evaluate.metrics import Evaluation
    from zoo.inference.classifier import Classifier

EXTENSIONS: Mapping[str, Extension] = {
    name: load(place)() for name, place in TASKS["classification"].extensions.items()
}
SETTINGS = [extension.settings for extension in EXTENSIONS.values() if extension.settings]


# The table of tasks decides the bases at run time.
class EvaluateConfig(*SETTINGS, EvaluateOptions):  # pyright: ignore[reportGeneralTypeIssues]
    r"""Measures accuracy and loss of a model on test images, overall and for each class.

    Pass --run for the model of a finished run. Its test images are the default; --data settings
    name others of the same classes, or of some of them: then the other outputs do not count. Or
    pass --model and --data: a published model, or one by its name with --weights. Examples:

      python -m zoo.evaluate --run runs/digits --output runs/digits/evaluation
      python -m zoo.evaluate --run runs/imagenet --data.name imagenet_a
      python -m zoo.evaluate --model lambda_resnet26t --weights imagenet --data.source tfds \
        --data.name imagenet2012 --data.dir gs://BUCKET/tensorflow_datasets
    """

    output: AnyOutputFolder | None = None
    """Also write evaluation.json, with every class, and figures here: of confusions, the most
    confident errors, thresholds of the score and more."""
    data: DataConfig = DataConfig()

    @model_validator(mode="before")
    @classmethod
    def _with_images_of_run(cls, settings: dict[str, Any]) -> dict[str, Any]:
        run, data = settings.get("run"), settings.get("data") or {}
        if not isinstance(data, dict) or not isinstance(data.get("name", ""), str | None):
            return settings  # the fields refuse them
        data = dict(data)
        # Variants of ImageNet have one split with labels, not the run's.
        if (split := SPLITS.get(dataset_of(data.get("name")))) is not None:
            data.setdefault("test_split", split)
        if run is not None:
            trained_on = load_config(location(run)).data.model_dump()
            # Settings of the run's source are not for another source.
            if data.get("source", trained_on["source"]) == trained_on["source"]:
                data = trained_on | data
        return {**settings, "data": data}


def run(config: EvaluateConfig) -> None:
    """Evaluates a classifier, prints the results and writes them to `output`."""
    from zoo.evaluate.metrics import Evaluation
    from zoo.evaluate.report import ClassifierReport

    classifier, report = measure(config)
    place = " ".join(filter(None, (config.data.source, config.data.name)))
    title = f"{classifier.name}{'' if config.averaged else ', raw weights,'} on {place}"
    if isinstance(report, Evaluation):
        if len(report.names) < len(classifier.class_names):
            title += f", {len(report.names):,} of {len(classifier.class_names):,} classes"
        additions = {name: extension.add(report) for name, extension in EXTENSIONS.items()}
        made = {name: addition for name, addition in additions.items() if addition is not None}
        report = ClassifierReport(report, made)
    report.print_tables(title)
    if config.output is not None:
        settings = config.model_dump(mode="json", exclude={"output"})
        report.write(title, settings, config.output)


def measure(config: EvaluateConfig) -> tuple["Classifier", "Evaluation | Report"]:
    """Loads a network and test images of its classes, and evaluates it."""
    from zoo.evaluate.classes import match_classes
    from zoo.evaluate.metrics import evaluate
    from zoo.inference.source.kinds import choose

    source = choose(config) if config.averaged else choose(config).without_averages()
    for extension in EXTENSIONS.values():
        if measured := extension.measure(source, config.data, config.precision):
            return measured
    classifier, images = source.load_with_images(config.data)
    classifier = classifier.computing_in(config.precision)
    classes = match_classes(classifier, images.class_names, class_subset(config.data.name))
    keep = any(extension.needs_outputs(config) for extension in EXTENSIONS.values())
    return classifier, evaluate(classifier, images.test, config.data.batch_size, classes, keep)
