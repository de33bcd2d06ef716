"""Class predictions for images: `python -m zoo.predict --model MODEL --weights FILE photo.jpg`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from zoo.config.model_options import ClassifierOptions
from zoo.data.readable import check_readable
from zoo.errors import printable
from zoo.fields import OutputFile, check_file_name, named
from zoo.inference.photos import Photos, check_replaces_none, find_photos
from zoo.inference.predictions import Prediction, describe, write_json

if TYPE_CHECKING:
    from zoo.inference.classifier import Classifier

GRID = 100  # images per image grid
OUTPUTS = (".png", ".json")


class PredictConfig(ClassifierOptions):
    """Prints the most probable classes of images.

    Pass --run for the model of a finished run, --model for one of zoo.publish, or --model and
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


def run(config: PredictConfig) -> None:
    """Checks the images, then runs the model."""
    photos = find_photos(config.photos)
    outputs = _outputs(config.output, len(photos))
    for output in outputs:
        check_file_name(output, OUTPUTS)
        check_replaces_none(output, photos)
    if config.output is not None and config.output.suffix == ".png":
        import zoo.plots.style  # noqa: F401  # fails before the work without matplotlib
    check_readable([str(photo) for photo in photos])
    from zoo.inference.source.kinds import choose

    classifier = choose(config).load()
    predictions = []
    for prediction in classifier.predict_files(photos, config.top):
        print(describe(prediction), flush=True)
        predictions.append(prediction)
    for i, output in enumerate(outputs):
        if output.suffix == ".json":
            write_json(config, predictions, output)
        else:
            write_grid(classifier, predictions[i * GRID : (i + 1) * GRID], output)
        print(f"wrote {printable(output)}")


def write_grid(classifier: "Classifier", predictions: Sequence[Prediction], path: Path) -> None:
    """Draws an image grid: preprocessed images, with bars for their most probable classes."""
    from zoo.plots.style import INK, PALE, TEST, new_figure, save_figure

    columns = min(len(predictions), 2)
    rows = -(-len(predictions) // columns)
    width, height, pad = 6.2 * columns, max(2.7, 0.4 * len(predictions[0].top) + 0.7), 0.12
    figure = new_figure(width, height * rows + 0.6, f"{classifier.name}: most probable classes")
    figure.set_layout_engine("constrained", w_pad=pad, h_pad=pad)
    axes = figure.subplots(rows, 2 * columns, squeeze=False, width_ratios=[1, 1.25] * columns)
    for axis in axes.flat:
        axis.set_axis_off()
    cells = zip(axes[:, ::2].flat, axes[:, 1::2].flat, strict=True)
    for prediction, (image, bars) in zip(predictions, cells, strict=False):
        image.imshow(classifier.view(prediction.photo).astype("uint8"))
        image.set_anchor("NW")
        name = printable(prediction.photo.name)[:60]  # as much as fits above an image and its bars
        image.set_title(name, loc="left", fontsize=10, color=INK, parse_math=False)
        places = range(len(prediction.top))
        bars.barh(places, 1, height=0.22, color=PALE)
        bars.barh(places, [score.probability for score in prediction.top], height=0.22, color=TEST)
        for place, score in enumerate(prediction.top):
            style = {"y": place - 0.2, "va": "bottom", "fontsize": 9.5, "color": INK}
            bars.text(0, s=printable(score.name), ha="left", parse_math=False, **style)
            bars.text(1, s=f"{score.probability:.1%}", ha="right", **style)
        bars.set(xlim=(0, 1), ylim=(max(len(prediction.top), 5) - 0.6, -0.8))
    save_figure(figure, path)


def _outputs(output: Path | None, photos: int) -> list[Path]:
    """Returns the output files: several image grids if there are many images."""
    if output is None or output.suffix == ".json":
        return [] if output is None else [output]
    grids = -(-photos // GRID)
    return [output, *(output.with_stem(f"{output.stem}-{i}") for i in range(2, grids + 1))]
