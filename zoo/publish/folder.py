"""Folders of published networks, and their upload: weights, description, labels, model card."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from lambda_keras import __version__
from lambda_keras.weights.hub import sha256
from zoo import model_card
from zoo.cli.tasks import NETWORK, choose_source
from zoo.errors import refusal, require, some
from zoo.files import atomic_write, is_partial, restore
from zoo.inference.source.base import LICENSE
from zoo.inference.source.published import WEIGHTS, Description

CARD = "README.md"  # shown as the page of a repository on the hub
KERAS_FILES = ("config.json", "metadata.json", "model.weights.h5")  # Keras' layout of a repository
FILES = {CARD, NETWORK, WEIGHTS, model_card.LABELS, *KERAS_FILES}


def check_is_free(folder: Path, overwrite: bool) -> None:
    """Refuses folders that are not empty, except published networks if `overwrite` is true."""
    restore(folder)
    paths = [path for path in folder.iterdir() if not is_partial(path)] if folder.is_dir() else []
    if not paths:
        return
    others = sorted(path.name for path in paths if path.name not in FILES or not path.is_file())
    if others or folder / NETWORK not in paths:
        names = some(others or sorted(path.name for path in paths))
        raise refusal("expected a new folder", f"{str(folder)!r}, with other files ({names})")
    expected = "expected a new folder, or --overwrite true"
    require(overwrite, expected, f"{str(folder)!r}, with a published network")


class Contents(NamedTuple):
    """Description of a network, and parts of its model card that depend on the task."""

    description: Description
    title: str
    labels: Sequence[str]
    fields: Mapping[str, str]
    started_from: str | None  # initial weights
    data: str  # name of the dataset
    metric: tuple[str, float | None]


N = TypeVar("N")


class Publisher(ABC, Generic[N]):
    """Publisher of the networks of a task."""

    task: str  # name on the hub
    library: str  # whose loading code the hub shows
    use: str  # Markdown for the model card; `{address}` stands for the network's

    @abstractmethod
    def write_weights(self, network: N, folder: Path) -> None:
        """Writes the files of the weights."""

    @abstractmethod
    def contents(self, network: N, run: Path, common: Mapping[str, Any]) -> Contents:
        """Returns description and card; `common` has the fields of every task's description."""

    @abstractmethod
    def read(self, network: N, folder: Path) -> Iterator[tuple[Any, bool]]:
        """Yields the model of the folder in each format, and whether other attributes are equal."""


def write(
    publisher: Publisher[Any],
    run: Path,
    folder: Path,
    license: str | None,
    address: str,
    overwrite: bool = False,
) -> None:
    """Writes the network of a finished run atomically, and verifies the files by reading them.

    If `overwrite` is true, a published network in the folder is replaced; `address` is for the
    model card. The publisher is the part "publish" of a task of `zoo.cli.tasks`.
    """
    source = choose_source(SimpleNamespace(run=run, model=None))
    network = source.load()
    with atomic_write(folder, over_folder=True) as temporary:
        temporary.mkdir()
        publisher.write_weights(network, temporary)
        origin = {name: text for name, text in source.card().items() if name != "Keras model"}
        common = {
            "model": network.name,
            "trained_on": origin["Trained on"],
            "license": license,
            "sha256": sha256(temporary / WEIGHTS),
        }
        contents = publisher.contents(network, run, common)
        description = contents.description.model_dump_json(indent=1) + "\n"
        (temporary / NETWORK).write_text(description, encoding="utf-8")
        model_card.write_labels(temporary, contents.labels)
        licensed = license or f"none is stated for these weights; {LICENSE}"
        fields = {**contents.fields, **origin, "License": licensed}
        if weights := contents.started_from:  # only names of files, as paths are private
            fields["Started from"] = weights if "://" in weights else Path(weights).name
        sections = {"Use": publisher.use.format(address=address)}
        front_matter = _front_matter(contents, publisher)
        model_card.write(temporary / CARD, contents.title, fields, sections, front_matter)
        check_same(publisher, network, temporary)
        check_is_free(folder, overwrite)  # again, as writing takes a while


def check_same(publisher: Publisher[N], network: Any, folder: Path) -> None:
    """Loads the folder in every format, and compares the network bit by bit."""
    expected = [np.asarray(array) for array in network.model.get_weights()]
    for model, same in publisher.read(network, folder):
        received = model.get_weights()
        same = same and len(received) == len(expected)
        if not same or not all(map(np.array_equal, received, expected)):
            what = "the weights of the run, its classes and preprocessing"
            raise ValueError(f"expected {folder.name} to hold {what}; it does not")


def _front_matter(contents: Contents, publisher: Publisher[Any]) -> str:
    """Returns the YAML metadata of the model card, for the hub."""
    from huggingface_hub import EvalResult, ModelCardData

    license, data = contents.description.license, contents.data
    metric, value = contents.metric
    result = EvalResult(
        task_type=publisher.task,
        dataset_type=data.replace(" ", "_"),
        dataset_name=data,
        metric_type=metric,
        metric_value=value,
    )
    return ModelCardData(
        library_name=publisher.library,
        license=license and license.lower(),
        pipeline_tag=publisher.task,
        tags=["lambda_keras", "lambda-networks", publisher.task],
        model_name=contents.description.model,
        eval_results=[result],
    ).to_yaml()


def check_login() -> str:
    """Returns the name of the user who is logged in to the Hugging Face Hub by its own tools."""
    with _telling_what_is_wrong("expected a login to the Hugging Face hub (hf auth login)"):
        return str(_api().whoami()["name"])


def upload(folder: Path, repository: str, private: bool) -> str:
    """Uploads a folder as one commit, into a new repository if there is none; returns its URL."""
    from huggingface_hub import CommitOperationAdd

    api = _api()
    added = [
        CommitOperationAdd(path.relative_to(folder).as_posix(), path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    with _telling_what_is_wrong(f"could not upload to {repository}"):
        page = api.create_repo(repository, private=private, exist_ok=True)
        # `upload_folder` may make several commits.
        api.create_commit(repository, added, commit_message="Publish a network")
    return str(page)


def _api() -> Any:
    from huggingface_hub import HfApi

    return HfApi(library_name="lambda_keras", library_version=__version__)


@contextmanager
def _telling_what_is_wrong(what: str) -> Iterator[None]:
    """Reports HTTP errors of all libraries under huggingface_hub in one line."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{what}: {reason}") from error
