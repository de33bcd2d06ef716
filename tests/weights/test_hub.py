"""Downloads from a hub that runs on this machine, and what happens if they are damaged."""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import save
from support import hub as stand_in
from support import networks
from support.damage import flip
from support.hub import COMMIT

from lambda_keras.applications import LambdaResNet14, LambdaResNet26T
from lambda_keras.models.specs import find_published
from lambda_keras.weights import hub
from lambda_keras.weights.files import find_weights
from lambda_keras.weights.state_dicts import SCHEMES, expected_tensors
from tools.timm_parity import filled

pytestmark = pytest.mark.one_backend  # downloads; other tests load such files on each

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def served(tmp_path):
    """A hub, for this process, with a repository."""
    with stand_in.served(str(tmp_path / "cache")) as served:
        served.files["owner/repo/model.safetensors"] = b"weights"
        yield served


@pytest.fixture(params=["switch_off", "close"])
def cut(request, served):
    """A function that cuts the network."""
    return getattr(served, request.param)


def fetch(revision="main") -> Path:
    return hub.fetch("owner/repo", ["model.safetensors"], revision)


@pytest.mark.parametrize("in_git", [False, True])
def test_download_and_cache(served, cut, in_git):
    """A damaged file is named, with network and without, and can be replaced."""
    served.in_git = in_git
    path = fetch()
    assert path.read_bytes() == fetch(COMMIT).read_bytes() == b"weights"
    assert served.downloads == 1
    flip(path)
    blob, checksum = path.resolve(), served.etag("model.safetensors", b"weights")
    match = rf"expected 7 bytes with checksum {checksum}.*'{blob}'.*Delete it and load again"
    with pytest.raises(ValueError, match=match):
        fetch()
    blob.unlink()
    assert fetch().read_bytes() == b"weights"
    cut()
    assert fetch() == path
    flip(path)
    with pytest.raises(ValueError, match=rf"damaged file: expected checksum {checksum}.*Delete it"):
        fetch()


@networks.unbuilt()
def test_nothing_cached_and_no_network(served, cut):
    cut()
    with pytest.raises(FileNotFoundError, match=r"could not download model\.safetensors of owner"):
        fetch()
    message = r"^.* of owner/repo@v1 .*no copy is cached.*/owner/repo/resolve/v1/model\.safetensors"
    message += r"\. .*--model\.weights FILE.*, or None .*\Z"  # one line
    with pytest.raises(FileNotFoundError, match=message):
        LambdaResNet14(weights="hf://owner/repo@v1")


@pytest.mark.parametrize("sent", [b"weight!", b"weight", b"weights1"])
def test_damaged_download(served, sent):
    """Some of these huggingface_hub finds itself; none gets through."""
    served.sent = lambda content: sent
    with pytest.raises((ValueError, FileNotFoundError), match=r"damaged file|could not download"):
        fetch()


def test_file_that_is_not_the_published_one(served):
    """A known checksum wins over the hub's own record, which may agree with what it sends."""
    known = hashlib.sha256(b"weights").hexdigest()
    assert hub.fetch("owner/repo", ["model.safetensors"], COMMIT, known).read_bytes() == b"weights"
    published = find_published("lambda_resnet50ts")
    served.revisions.add(published.revision)
    served.files[f"{published.repository}/{published.filename}"] = b"other weights"
    with pytest.raises(ValueError, match=f"expected checksum {published.checksum}, as publ"):
        find_weights("imagenet", "lambda_resnet50ts")


def test_cache_without_links_needs_the_network(served, cut):
    """As on systems that have none."""
    path = fetch()
    path.resolve().replace(path)
    assert fetch() == path
    cut()
    with pytest.raises(ValueError, match="Load again with a network connection"):
        fetch()


@pytest.mark.parametrize("address", ["other/repo", "owner/repo@v7"])
def test_unknown_repository_or_revision(served, address):
    with pytest.raises(ValueError, match=rf"that exist, and that you may read.*{address}"):
        hub.fetch_address(f"hf://{address}")


WRONG = ["", "a", "../x", "a/..", "-a/b", "a--b/c", "a/b.git", f"a/{'b' * 97}", "a/b@..", "a/b@"]


@pytest.mark.parametrize("name", WRONG)
def test_name_that_no_repository_can_have(name):
    message = f"expected a repository of the Hugging Face .*'hf://{re.escape(name)}'$"
    with pytest.raises(ValueError, match=message):
        hub.fetch_address(f"hf://{name}")


@pytest.mark.parametrize("name", ["a/b", "timm/resnet50.a1_in1k", "a-b/c-1.2@v1--2"])
def test_name_that_a_repository_can_have(name):
    repository, _, revision = name.partition("@")
    assert hub.parse_address(f"hf://{name}") == (repository, revision or "main")


def test_safetensors_come_before_keras_weights(served):
    served.files = {"owner/repo/README.md": b"text"}
    match = r"with model\.safetensors or model\.weights\.h5.*owner/repo@main, which has none"
    with pytest.raises(ValueError, match=match):
        hub.fetch_address("hf://owner/repo")
    served.files["owner/repo/model.weights.h5"] = b"of Keras"
    assert hub.fetch_address("hf://owner/repo").name == "model.weights.h5"
    served.files["owner/repo/model.safetensors"] = b"of safetensors"
    assert hub.fetch_address(f"hf://owner/repo@{COMMIT}").name == "model.safetensors"


def test_constructor_takes_keras_weights_of_a_repository(served, tmp_path, cut):
    expected, path = LambdaResNet14(classes=3, filters=4), tmp_path / "model.weights.h5"
    expected.save_weights(path)
    served.files = {"owner/repo/model.weights.h5": path.read_bytes()}
    for _ in range(2):
        model = LambdaResNet14(classes=3, filters=4, weights="hf://owner/repo@main")
        networks.assert_same(model, expected)
        cut()
    assert served.downloads == 1


SCRIPT = """
import json, sys
from lambda_keras.applications import LambdaResNet26T
try:
    model = LambdaResNet26T(weights="imagenet")
    print(json.dumps(model.get_layer("predictions").bias.numpy().tolist()))
except Exception as error:
    print(json.dumps(f"{type(error).__name__}: {error}"))
"""


@pytest.mark.slow
def test_imagenet_in_a_new_process(served, tmp_path):
    """The settings of users: HF_ENDPOINT, HF_HOME, HF_HUB_OFFLINE; and all of the network."""
    tensors = expected_tensors(LambdaResNet26T(), SCHEMES[0])
    state = filled({tensor.key: tensor.shape for tensor in tensors})
    served.files["timm/lambda_resnet26t.c1_in1k/model.safetensors"] = save(state)

    def load(**environment):
        places = {"HF_ENDPOINT": served.address, "HF_HOME": str(tmp_path / "home")}
        environment = {**os.environ, **places, **environment}
        command = [sys.executable, "-c", SCRIPT]
        output = subprocess.check_output(command, cwd=ROOT, env=environment, text=True)
        return json.loads(output.splitlines()[-1])

    assert load() == state["head.fc.bias"].tolist()
    (blob,) = (tmp_path / "home" / "hub").glob("models--timm--*/blobs/*")
    flip(blob)
    assert f"Received: '{blob}'" in load(HF_HUB_OFFLINE="1")
    assert served.downloads == 1


def test_file_at_an_address(served, tmp_path):
    """One that is damaged comes anew; one that is not the published one is refused."""
    content = b"weights" * 1000
    served.files["folder/deeper/resnet.h5"] = content
    address = f"{served.address}/folder/deeper/resolve/main/resnet.h5"
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    path = hub.fetch_url(address, md5)
    assert path == tmp_path / "cache" / "models" / "resnet.h5"
    for downloads in (1, 2):
        assert hub.fetch_url(address, md5).read_bytes() == content
        assert served.downloads == downloads
        flip(path)
    with pytest.raises(ValueError, match=r"damaged file: expected checksum 0{32}, .*resnet\.h5$"):
        hub.fetch_url(address, 32 * "0")
    with pytest.raises(FileNotFoundError, match=r"could not download http.*/other\.h5: Not Found$"):
        hub.fetch_url(address.replace("resnet", "other"), None)


def test_weights_of_resnet_rs_are_asked_for_by_size(monkeypatch):
    asked = []
    monkeypatch.setattr(hub, "fetch_url", lambda *arguments: asked.append(arguments))
    for name in ("imagenet", "imagenet-i192", "imagenet-i160"):
        find_weights(name, "resnet_rs101")
    (first, md5), same, (other, _) = asked
    assert same == (first, md5)
    assert first.endswith("/resnet_rs/resnet-rs-101-i192.h5")
    assert other.endswith("/resnet_rs/resnet-rs-101-i160.h5")
    assert len(md5) == 32
    with pytest.raises(ValueError, match="one of imagenet, imagenet-i192, imagenet-i160"):
        find_weights("imagenet-i224", "resnet_rs101")
