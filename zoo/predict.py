"""Names what photographs show: `python -m zoo.predict --model MODEL --weights FILE photo.jpg`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, field_validator
from pydantic_settings import CliPositionalArg, SettingsConfigDict

from zoo import cli
from zoo.files import replacing
from zoo.image_folder import SUFFIXES, check_readable
from zoo.model_source import ModelSource

if TYPE_CHECKING:
    from zoo.inference import Answer, Classifier

BAR = 30  # characters of the bar of a probability of 1
MAX_SHEET = 100  # photographs on one sheet


class PredictConfig(ModelSource):
    """Prints the most probable classes of photographs.

    Give --model and --weights, or --run for the model of a finished run. Photographs are resized
    and cropped as when the accuracy of the model was measured. Examples:

      python -m zoo.predict --model lambda_resnet26t --weights imagenet cat.jpg dog.jpg
      python -m zoo.predict --run runs/digits photos/ --top 3 --output predictions.json
    """

    model_config = SettingsConfigDict(cli_prog_name="python -m zoo.predict")
    of_model = ModelSource.of_model | {"labels"}

    photos: CliPositionalArg[list[str]] = Field(
        description=f"Photographs ({', '.join(SUFFIXES)}) or folders of them."
    )
    labels: Path | None = Field(
        default=None,
        description="Text file with the name of a class of --weights per line; None: the 1000 of "
        "ImageNet.",
    )
    top: int = Field(default=5, ge=1, le=50, description="How many classes to name.")
    output: Path | None = Field(
        default=None,
        description=f"Also write a sheet of at most {MAX_SHEET} photographs (.png), or every "
        "answer (.json).",
    )

    @field_validator("output")
    @classmethod
    def _known_format(cls, output: Path | None) -> Path | None:
        if output is not None and (output.suffix not in (".png", ".json") or output.is_dir()):
            raise ValueError(f"expected a file named .png or .json. Received: {str(output)!r}")
        for folder in output.parents if output else ():
            if folder.is_file():
                raise ValueError(f"{folder} is a file, not a folder. Received: {str(output)!r}")
        return output


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, checks the photographs, then asks the model.

    Args:
        arguments: Command line arguments without the program's name.
    """
    config = PredictConfig.from_command_line(_quoted(arguments))
    class_names = read_labels(config.labels) if config.labels else None
    photos = find_photos(config.photos)
    _check_output(config.output, photos)
    check_readable([str(photo) for photo in photos])
    from zoo.inference import Classifier

    if config.run is not None:
        classifier = Classifier.from_run(config.run)
    else:
        classifier = Classifier.from_weights(
            str(config.model), str(config.weights), class_names, config.image_size
        )
    answers = []
    for answer in classifier.ask(photos, config.top):
        print(describe(answer), flush=True)
        answers.append(answer)
    if config.output is not None:
        if config.output.suffix == ".json":
            write_json(config, answers, config.output)
        else:
            write_sheet(classifier, answers, config.output)
        print(f"wrote {config.output}")


def find_photos(names: Sequence[str]) -> list[Path]:
    """Returns the photographs: files as they are named, and all that folders hold, sorted.

    Raises:
        ValueError: If a file or folder does not exist, or a folder holds no photographs.
    """
    photos = []
    for name in names:
        path = Path(name)
        if not path.exists():
            raise ValueError(f"photos: expected a photograph or a folder. Received: {name!r}")
        if path.is_dir():
            files = (p for p in path.rglob("[!.]*") if p.is_file())
            found = sorted(p for p in files if p.suffix.lower() in SUFFIXES)
            if not found:
                raise ValueError(f"photos: no images ({', '.join(SUFFIXES)}) in {name!r}")
            photos += found
        else:
            photos.append(path)
    return photos


def read_labels(path: Path) -> list[str]:
    """Returns the names of classes, one from each line.

    Raises:
        ValueError: If the file is missing or not text, or a line is empty.
    """
    if not path.is_file():
        raise ValueError(f"labels: expected a text file. Received: {str(path)!r}, not found")
    try:
        names = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except UnicodeDecodeError:
        raise ValueError(f"labels: expected text in UTF-8. Received: {str(path)!r}") from None
    if not names or not all(names):
        raise ValueError(f"labels: expected the name of a class in every line of {str(path)!r}")
    return names


def describe(answer: "Answer") -> str:
    """Returns the lines about a photograph: its name, then percentages, bars and classes."""
    lines = [
        f"{guess.probability:8.1%}  {'#' * round(BAR * guess.probability):{BAR}}  {guess.name}"
        for guess in answer.top
    ]
    return "\n".join([str(answer.photo), *lines, ""])


def write_json(config: PredictConfig, answers: Sequence["Answer"], path: Path) -> None:
    """Writes what was asked, and the index, name and probability of every class."""
    settings = config.model_dump(mode="json", exclude={"photos", "output"}, exclude_none=True)
    photos = [
        {"photo": str(answer.photo), "top": [guess._asdict() for guess in answer.top]}
        for answer in answers
    ]
    content = json.dumps({**settings, "photos": photos}, indent=2, ensure_ascii=False)
    with replacing(path) as beside:
        beside.write_text(content + "\n", encoding="utf-8")


def write_sheet(classifier: "Classifier", answers: Sequence["Answer"], path: Path) -> None:
    """Draws every photograph as the model sees it, with bars for its most probable classes."""
    from zoo.plots import INK, new_figure, save_figure

    columns = min(len(answers), 2)
    rows = -(-len(answers) // columns)
    width, height, pad = 6.2 * columns, max(2.7, 0.4 * len(answers[0].top) + 0.7), 0.12
    figure = new_figure(width, height * rows + 0.6)
    figure.set_layout_engine("constrained", w_pad=pad, h_pad=pad)
    title = f"{classifier.name}: most probable classes"
    figure.suptitle(title, x=pad / width, ha="left", fontsize=13, fontweight="bold", color=INK)
    axes = figure.subplots(rows, 2 * columns, squeeze=False, width_ratios=[1, 1.25] * columns)
    for axis in axes.flat:
        axis.set_axis_off()
    cells = zip(axes[:, ::2].flat, axes[:, 1::2].flat, strict=True)
    for answer, (picture, bars) in zip(answers, cells, strict=False):
        picture.imshow(classifier.view(answer.photo).astype("uint8"))
        picture.set_anchor("NW")
        name = answer.photo.name[:60]  # as much as fits above picture and bars
        picture.set_title(name, loc="left", fontsize=10, color=INK, parse_math=False)
        _draw_bars(bars, answer)
    save_figure(figure, path)


def _draw_bars(axis, answer: "Answer") -> None:
    from zoo.plots import INK, PALE, TEST

    rows = range(len(answer.top))
    axis.barh(rows, 1, height=0.22, color=PALE)
    axis.barh(rows, [guess.probability for guess in answer.top], height=0.22, color=TEST)
    for row, guess in enumerate(answer.top):
        style = {"y": row - 0.2, "va": "bottom", "fontsize": 9.5, "color": INK}
        axis.text(0, s=guess.name, ha="left", parse_math=False, **style)
        axis.text(1, s=f"{guess.probability:.1%}", ha="right", **style)
    axis.set(xlim=(0, 1), ylim=(max(len(answer.top), 5) - 0.6, -0.8))


def _check_output(output: Path | None, photos: Sequence[Path]) -> None:
    if output is None:
        return
    if output.exists() and any(output.samefile(photo) for photo in photos):
        raise ValueError(f"output: {output} is one of the photographs; expected another file")
    if output.suffix == ".png":
        import zoo.plots  # noqa: F401  # a missing matplotlib shows before the work

        if len(photos) > MAX_SHEET:
            raise ValueError(
                f"output: a sheet holds at most {MAX_SHEET} photographs; write .json instead. "
                f"Received: {len(photos)} photographs"
            )


def _quoted(arguments: Sequence[str]) -> list[str]:
    """Quotes what follows no option, for pydantic-settings splits lists at commas."""
    result, is_value = [], False
    for argument in arguments:
        is_option = argument.startswith("-")
        result.append(argument if is_option or is_value else f'"{argument}"')
        is_value = is_option and argument != "--" and "=" not in argument
    return result


if __name__ == "__main__":
    cli.run(main)
