"""Class predictions for images: `python -m zoo.predict --model MODEL --weights FILE photo.jpg`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from zoo.config.model_options import ClassifierOptions
from zoo.data.readable import check_readable
from zoo.errors import printable
from zoo.fields import OutputFile, check_file_name, named
from zoo.inference.photos import Photos, check_replaces_none, find_photos
from zoo.inference.predictions import ClassScore, describe, write_json

if TYPE_CHECKING:
    from zoo.inference.classifier import Classifier

GRID = 100  # images per image grid
OUTPUTS = (".png", ".json")


class PredictConfig(ClassifierOptions):
    """Prints the most probable classes of images.

    Pass --run for the model of a finished run, --model for a published one, or --model and
    --weights. Images are resized and cropped as when the accuracy of the model was measured.

    Examples:
      python -m zoo.predict --model lambda_resnet26t --weights imagenet cat.jpg dog.jpg
      python -m zoo.predict --run runs/digits photos/ --top 3 --output predictions.json
      python -m zoo.predict --model hf://OWNER/NAME cat.jpg
    """

    photos: Photos
    top: int = Field(default=5, ge=1, le=50)
    """How many classes to name."""
    output: Annotated[OutputFile, named(*OUTPUTS)] | None = Field(
        default=None,
        description=f"Also write predictions (.json), or image grids of {GRID} images each: "
        "NAME.png, NAME-2.png and so on.",
    )


def run(config: PredictConfig, choose: Callable[[PredictConfig], Any] | None = None) -> None:
    """Checks the images, then runs the model, which `choose` finds."""
    photos = find_photos(config.photos)
    outputs = outputs_of(config.output, len(photos))
    for output in outputs:
        check_file_name(output, OUTPUTS)
        check_replaces_none(output, photos)
    if config.output is not None and config.output.suffix == ".png":
        import zoo.plots.classification  # noqa: F401  # fails before the work without matplotlib
    check_readable([str(photo) for photo in photos])
    from zoo.data.ahead import Waiting
    from zoo.inference.source import kinds

    choose = choose or kinds.choose
    classifier = choose(config).load().computing_in(config.precision)
    # The first batch compiles the network.
    views = Waiting(classifier.views(photos), classifier.batch_size)
    predictions = []
    for prediction in zip(photos, classifier.predict_views(views, config.top), strict=True):
        print(describe(*prediction), flush=True)
        predictions.append(prediction)
    if views.share is not None:
        print(views.report())
    for i, output in enumerate(outputs):
        if output.suffix == ".json":
            write_json(config, predictions, output)
        else:
            _draw(classifier, predictions[i * GRID : (i + 1) * GRID], output)
        print(f"wrote {printable(output)}")


def _draw(
    classifier: "Classifier", predictions: Sequence[tuple[Path, list[ClassScore]]], path: Path
) -> None:
    from zoo.plots.classification import plot_scores

    images = [
        (printable(photo.name), classifier.view(photo), [score[1:] for score in top])
        for photo, top in predictions
    ]
    plot_scores(images, f"{classifier.name}: most probable classes", path)


def outputs_of(output: Path | None, photos: int) -> list[Path]:
    """Returns the output files: several image grids if there are many images."""
    if output is None or output.suffix == ".json":
        return [] if output is None else [output]
    grids = -(-photos // GRID)
    return [output, *(output.with_stem(f"{output.stem}-{i}") for i in range(2, grids + 1))]
