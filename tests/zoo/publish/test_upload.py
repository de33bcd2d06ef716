"""Uploads to a hub that runs on this machine, and what comes back from it."""

from functools import partial

import keras
import pytest
from support import commands
from support import hub as stand_in
from support.zoo_weights import same_weights

from zoo.api import load_classifier
from zoo.inference.source.run import Run
from zoo.publish import __main__ as publish
from zoo.publish import folder

fail = partial(commands.fail, publish.main)

ADDRESS = "hf://owner/digits"


@pytest.fixture
def served(tmp_path, environ):
    """A hub where the user of this process is logged in."""
    environ(HF_TOKEN=stand_in.TOKEN)
    with stand_in.served(str(tmp_path / "cache")) as served:
        yield served


# huggingface_hub's own call of its HTTP library, for large files.
@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
def test_uploaded_network_comes_back(served, run, capsys):
    publish.main(["--run", str(run), ADDRESS, "--license", "mit", "--private", "true"])
    assert f"published to {served.address}/owner/digits" in capsys.readouterr().out
    (said,) = served.created
    place = (said["organization"], said["name"], said["visibility"])
    assert place == ("owner", "digits", "private")
    (names,) = served.commits  # all files in one
    assert {"README.md", "lambda_keras.json", "model.safetensors", "config.json"} <= set(names)
    assert f"load_classifier('{ADDRESS}')" in served.files["owner/digits/README.md"].decode()

    own, other = Run(run).load(), load_classifier(ADDRESS)
    assert (other.name, other.preprocessing) == (own.name, own.preprocessing)
    assert list(other.class_names) == list(own.class_names)
    assert same_weights(own.model, other.model)
    assert same_weights(own.model, keras.saving.load_model(ADDRESS))
    pinned = load_classifier(f"{ADDRESS}@{stand_in.COMMIT}")
    assert same_weights(own.model, pinned.model)


def test_changed_weights_on_the_hub_are_noticed(served, published):
    for path in published.iterdir():
        served.files[f"owner/digits/{path.name}"] = path.read_bytes()
    name = "owner/digits/model.safetensors"
    served.files[name] = served.files[name][:-1] + b"\0"
    with pytest.raises(ValueError, match="damaged file: expected checksum"):
        load_classifier(ADDRESS)


def test_repository_that_is_none_of_ours(served):
    served.files["owner/other/model.safetensors"] = b"weights"
    with pytest.raises(ValueError, match=r"a repository with lambda_keras\.json"):
        load_classifier("hf://owner/other")


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize("token", [None, "hf_wrong"])
def test_without_login_nothing_is_done(served, environ, capsys, token):
    environ(HF_TOKEN=token)
    line = fail(capsys, "--run", "runs/x", ADDRESS)
    assert "expected a login to the Hugging Face hub (hf auth login): " in line
    assert not served.created


@pytest.mark.parametrize("step", ["repos/create", "validate-yaml", "preupload", "objects/batch"])
def test_what_the_hub_refuses_is_one_line(served, published, step):
    served.refuses = step
    with pytest.raises(ValueError, match=r"^could not upload to owner/digits: ") as caught:
        folder.upload(published, "owner/digits", private=False)
    assert "\n" not in str(caught.value)
    assert not served.commits
