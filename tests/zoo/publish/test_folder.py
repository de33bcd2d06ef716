"""The folder that others get of a trained network."""

import os
import shutil
import stat
from functools import partial
from pathlib import Path

import pytest
import yaml
from support import commands, runs
from support.networks import assert_same

from zoo.config import ModelConfig
from zoo.config.model_options import read_labels
from zoo.inference.classifier import Classifier
from zoo.inference.source.run import Run
from zoo.publish import __main__ as publish
from zoo.publish import folder as publish_folder
from zoo.publish.classification import ClassifierPublisher
from zoo.publish.command import address_of
from zoo.run_folder import load_metrics
from zoo.train.network import create_network, prepare

fail = partial(commands.fail, publish.main)

FILES = {"README.md", "config.json", "labels.txt", "lambda_keras.json", "metadata.json"}
FILES |= {"model.safetensors", "model.weights.h5"}


@pytest.fixture(scope="module")
def own(run) -> Classifier:
    """The network of the run."""
    return Run(run).load()


@pytest.fixture(scope="module")
def published(run, tmp_path_factory) -> Path:
    """Folder that the command has written of the run."""
    folder = tmp_path_factory.mktemp("published") / "digits"
    publish.main(["--run", str(run), str(folder), "--license", "CC-BY-4.0"])
    return folder


def test_folder_is_complete_and_says_nothing_of_the_run_s_place(run, published):
    assert {path.name for path in published.iterdir()} == FILES
    assert read_labels(published / "labels.txt") == list("0123456789")
    assert [path.name for path in published.parent.iterdir()] == [published.name]
    mask = os.umask(0)  # which only setting it tells
    os.umask(mask)
    for path in published.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
        assert str(run.parent).encode() not in path.read_bytes()


def test_card(run, published):
    _, head, card = (published / "README.md").read_text("utf-8").split("---\n", 2)
    facts = yaml.safe_load(head)
    assert (facts["library_name"], facts["license"]) == ("keras", "cc-by-4.0")
    assert facts["pipeline_tag"] == "image-classification"
    (result,) = facts["model-index"][0]["results"]
    accuracy = load_metrics(run).test.accuracy
    assert result["dataset"]["name"] == "digits"
    metric = result["metrics"][0]
    assert (metric["type"], metric["value"]) == ("accuracy", accuracy)
    assert f"| Test accuracy | {accuracy:.4f} (360 images) |" in card
    assert "| License | CC-BY-4.0 |" in card
    assert "load_classifier('digits')" in card
    assert "Keras model" not in card  # is of the run


@pytest.mark.parametrize(
    ("target", "address"),
    [("published/mine", "published/mine"), ("/home/me/mine", "mine"), ("../me/mine", "mine")],
)
def test_card_names_the_folder_as_it_was_given(target, address):
    """But nothing of the machine."""
    assert address_of(Path(target)) == address


OVERRIDES = {"filters": 4, "blocks": [1] * 4, "num_heads": 2, "key_dim": 4, "scope": 3}


@pytest.mark.parametrize("classes", [10, 3])
def test_training_starts_from_it(own, published, capsys, classes):
    """With other classes, the classifier starts from random weights."""
    config = ModelConfig(image_size=16, weights=str(published), overrides=OVERRIDES)
    network = create_network(config, classes)
    prepare(network, config)
    said = "the classifier starts from random weights" in capsys.readouterr().out
    assert said == (classes == 3)
    for layer in network.layers[: None if classes == 10 else -1]:
        assert_same(layer, own.model.get_layer(layer.name))


def test_a_published_network_is_replaced_when_asked(run, copy, capsys):
    before = (copy / "README.md").read_text()
    line = fail(capsys, "--run", str(run), str(copy))
    assert "expected a new folder, or --overwrite true" in line
    assert (copy / "README.md").read_text() == before
    publish.main(["--run", str(run), str(copy), "--overwrite", "true"])
    assert {path.name for path in copy.iterdir()} == FILES
    assert "none is stated for these weights" in (copy / "README.md").read_text()


class Meanwhile(ClassifierPublisher):
    """Does something when a written folder is read again."""

    def __init__(self, happens):
        self.happens = happens

    def read(self, network, folder):
        self.happens()
        return super().read(network, folder)


def test_what_fails_leaves_everything_as_it_was(run, copy, tmp_path):
    def refuse():
        raise ValueError("not the same")

    before = (copy / "README.md").read_text()
    for target in (tmp_path / "new", copy):
        with pytest.raises(ValueError, match="not the same"):
            publish_folder.write(Meanwhile(refuse), run, target, None, "copy", overwrite=True)
    assert (copy / "README.md").read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_what_a_killed_command_moved_aside_comes_back(run, copy, capsys):
    """tests/zoo/test_files.py has the other moments."""
    copy.rename(copy.with_name(f".old-{copy.name}"))
    line = fail(capsys, "--run", str(run), str(copy))
    assert "with a published network" in line
    assert {path.name for path in copy.iterdir()} == FILES


def test_files_that_came_while_it_was_written_stay(run, published, copy):
    """Other files, and a network that another command has published meanwhile."""
    touch = Meanwhile((copy / "notes.md").touch)
    with pytest.raises(ValueError, match=r"other files \(notes\.md\)"):
        publish_folder.write(touch, run, copy, None, "copy", overwrite=True)
    assert {path.name for path in copy.iterdir()} == FILES | {"notes.md"}
    other = copy.with_name("other")
    publishes = Meanwhile(partial(shutil.copytree, published, other))
    with pytest.raises(ValueError, match=r"expected a new folder, or --overwrite true"):
        publish_folder.write(publishes, run, other, None, "other")
    assert (other / "README.md").read_text() == (published / "README.md").read_text()


def test_card_names_weights_that_training_started_from_without_their_folder(
    run, published, tmp_path
):
    """Paths are private."""
    weights = {"weights": str(published / "model.weights.h5")}
    tuned = runs.changed(run, tmp_path / "tuned", model=weights)
    publish.main(["--run", str(tuned), str(tmp_path / "p")])
    card = (tmp_path / "p" / "README.md").read_text("utf-8")
    assert "| Started from | model.weights.h5 |" in card
    assert str(published.parent) not in card


@pytest.mark.parametrize("part", ["model.safetensors", "model.weights.h5"])
def test_other_weights_than_those_of_the_run_are_noticed(run, own, copy, part):
    other = Run(run).load()
    bias = other.model.get_layer("predictions").bias
    bias.assign(bias + 1)
    if part == "model.weights.h5":
        other.model.save(copy, zipped=False)
        other = own
    with pytest.raises(ValueError, match="expected copy to hold the weights of the run"):
        publish_folder.check_same(ClassifierPublisher(), other, copy)


NOT_HERE = "not the current one, one around it, or a mounted disk. Received: "
ROWS = [
    ("x", "run: Field required"),
    ("--run run", "the following arguments are required: TARGET"),
    ("--run missing x", "the folder of a finished run. Received: 'missing'"),
    ("--run run full --overwrite true", "a new folder. Received: 'full', with other files (pho"),
    ("--run run repository --overwrite true", "other files (.git, labels.txt)"),
    ("--run run card --overwrite true", "'card', with other files (README.md)"),
    ("--run run .", f"{NOT_HERE}'.'"),
    ("--run run ../..", f"{NOT_HERE}'../..'"),
    ("--run run /proc", f"{NOT_HERE}'/proc'"),
    ("--run run file.txt", "a folder to write to. Received: 'file.txt'"),
    ("--run run hf://owner/a/b", "expected hf://OWNER/NAME. Received: 'hf://owner/a/b'"),
    ("--run run hf://../..", "expected hf://OWNER/NAME. Received: 'hf://../..'"),
    ("--run run x --private true", "private: only for hf://OWNER/NAME. Received: 'x'"),
    ("--run run hf://o/n --overwrite true", "overwrite: only for a folder"),
    ("--run run x --license a|b", "license: expected an SPDX identifier"),
]


@pytest.mark.parametrize(("line", "message"), ROWS, ids=[line for line, _ in ROWS])
def test_bad_input(here, capsys, line, message):
    folders = ("full", "card", "repository/.git", "repository/labels.txt")  # named as our file
    for name in folders:
        (here / name).mkdir(parents=True)
    for name in ("file.txt", "full/photo.jpg", "repository/lambda_keras.json", "card/README.md"):
        (here / name).touch()
    assert message in commands.refuse(f"publish {line}", capsys)
