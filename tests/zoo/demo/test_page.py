"""Computations, figures and protection of the page, without a server."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import keras
import numpy as np
import pytest
from gradio.state_holder import SessionState
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import Response
from starlette.testclient import TestClient
from support.networks import TINY, randomize, tiny_model

from lambda_keras.applications import preprocess_input
from lambda_keras.applications.preprocessing import Preprocessing
from zoo.demo import page
from zoo.demo.classification import MEAN, Demo
from zoo.inference.classifier import Classifier
from zoo.inference.lambda_maps import lambda_layers, lambda_maps

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def drawn(monkeypatch) -> list[tuple]:
    """Maps that would be drawn."""
    calls: list[tuple] = []
    monkeypatch.setattr(Demo, "draw_maps", lambda _, *call: calls.append(call))
    return calls


def demo(names=("a", "b", "c", "d", "e", "f"), **changes) -> Demo:
    arguments = {"lambda": {**TINY, **changes}}
    model = tiny_model((8, 8, 3), len(names), "softmax", arguments=arguments)
    randomize(model)
    return Demo(Classifier("tiny", model, Preprocessing(8, 1), names))


def test_classes_of_the_same_name_are_told_apart(photo):
    names = ("crane", "temple", "crane")
    shown = demo(names)
    answer = shown.classify(photo)
    assert sorted(answer) == ["crane (0)", "crane (2)", "temple"]
    for score in shown.classifier(photo):
        name = score.name if score.name == "temple" else f"crane ({score.index})"
        assert answer[name] == pytest.approx(score.probability)


def test_maps_are_those_of_the_clicked_position(photo, drawn):
    shown = demo()
    model = shown.classifier.model
    layer = next(iter(lambda_layers(model)))
    assert lambda_layers(model)[layer] == (4, 4)
    for head in (MEAN, 0, 1):
        picture, title, _ = shown.look(photo, layer, head, 7, 2)
        view, maps, row, column = drawn.pop()
        assert (row, column) == (1, 3)
        who = "mean of all heads" if head == MEAN else f"head {head + 1}"
        where = "What goes into the output at row 2, column 4 of 4 x 4"
        assert title == f"**{where}** ({layer}, {who})"
        assert picture.shape == (480, 480, 3)
        expected = vars(lambda_maps(model, layer, preprocess_input(view), 1, 3)).values()
        assert [name.split()[0] for name in maps] == ["Content", "Position"]
        for weights, all_heads in zip(maps.values(), expected, strict=True):
            shown_heads = all_heads.mean(0) if head == MEAN else all_heads[head]
            np.testing.assert_allclose(weights, shown_heads, atol=1e-6)
    assert shown.classify(None) is None
    assert shown.look(None, layer, MEAN, 0, 0) == (None, "", None)
    heads = model.get_layer(layer).num_heads
    with pytest.raises(gr.Error, match=f"{layer} has {heads} heads"):  # another one has more
        shown.look(photo, layer, heads, 0, 0)


@pytest.mark.parametrize(
    ("changes", "title"),
    [({"use_content": False}, "Position map"), ({"position_embedding": None}, "Content map")],
)
def test_maps_that_a_layer_lacks_are_left_out(photo, drawn, changes, title):
    shown = demo(**changes)
    shown.look(photo, next(iter(lambda_layers(shown.classifier.model))), MEAN, 0, 0)
    assert [name[: len(title)] for name in drawn[0][1]] == [title]


def test_what_is_wrong_is_told_on_the_page(tmp_path, photo):
    shown = demo()
    layer = next(iter(lambda_layers(shown.classifier.model)))
    (tmp_path / "broken.png").write_bytes(b"no")
    broken = str(tmp_path / "broken.png")
    for ask in (shown.classify, lambda path: shown.look(path, layer, MEAN, 0, 0)):
        with pytest.raises(gr.Error, match=r"^.unreadable image: broken.png \(") as error:
            ask(broken)
        assert "/" not in str(error.value)
    with pytest.raises(gr.Error, match="expected a position in the grid"):
        shown.look(photo, layer, MEAN, 8, 0)


@pytest.fixture
def uploads(tmp_path, environ) -> Path:
    """Folder of uploads, with an upload, links to other places and a pipe."""
    folder = tmp_path / "uploads"
    folder.mkdir()
    environ(GRADIO_TEMP_DIR=str(folder))
    (folder / "own.png").write_bytes(b"own")
    (folder / "link").symlink_to(tmp_path / "photo.png")
    (folder / "outside").symlink_to(tmp_path)
    os.mkfifo(folder / "fifo.png")
    return folder


def built(make: Callable[[], Any]) -> Any:
    """Runs a function in an event loop: where none runs, Gradio opens one and leaves it."""

    async def call() -> Any:
        return make()

    return asyncio.run(call())


def test_only_uploads_are_opened(uploads, photo):
    def build() -> tuple[page.Page, gr.Image]:
        with page.page_of("tiny", "text") as blocks:
            image = page.upload()
            image.change(print, image, None)
        return blocks, image

    blocks, image = built(build)
    (function,) = blocks.fns.values()

    def refused(value: object) -> bool:
        with suppress(gr.Error):
            asyncio.run(blocks.preprocess_data(function, [value], SessionState(blocks)))
            return False
        return True

    own = uploads / "own.png"
    assert page.uploaded(str(own), image) == str(own)
    with pytest.raises(gr.Error, match=page.NOT_UPLOADED):
        page.uploaded(photo, image)
    assert not refused({"path": str(own), "meta": {"_type": "gradio.FileData"}})
    relative = os.path.relpath(photo, uploads)
    for path in (
        photo, str(ROOT / "README.md"), "/proc/1/mem", os.path.relpath(photo, ROOT),
        f"{uploads}/{relative}", f"{uploads}/none/../{relative}", f"{uploads}/link",
        f"{uploads}/outside/photo.png", str(uploads), f"{uploads}/fifo.png", "/dev/zero",
        f"{uploads}-other/own.png", "http://127.0.0.1:9/own.png", own.as_uri(), "", f"{uploads}/\0",
        f"{uploads}/{'a' * 5000}", "\ud800", 7, [str(own)], None,
    ):  # fmt: skip
        assert refused({"path": path, "meta": {"_type": "gradio.FileData"}}), path
    for value in (str(own), {"url": str(own)}, {}, [], 5):
        assert refused(value), value


def launched(**changes) -> dict:
    """Arguments with which a page is launched; SIGTERM then acts like Ctrl+C."""
    arguments: dict = {"host": "127.0.0.1", "port": 7860, "password": None, "is_private": True}
    seen: dict = {}
    blocks = SimpleNamespace(
        launch=lambda **given: seen.update(given),
        block_thread=lambda: None,
        local_url="http://127.0.0.1:7860/",
    )
    before = signal.getsignal(signal.SIGTERM)
    page.serve(SimpleNamespace(build=lambda: blocks), **{**arguments, **changes})
    assert signal.signal(signal.SIGTERM, before) is signal.default_int_handler
    return seen


def test_hosts_passwords_and_addresses(capsys):
    url = "https://demo.example/demo"
    open_, behind = launched(), launched(password="größe 12", url=url)
    assert open_["auth"] is None
    known = [behind["auth"]("me", word) for word in ("größe 12", "größe 1", "", "größe 123")]
    assert known == [True, False, False, False]
    for seen in (open_, behind):
        place = (seen["server_name"], seen["server_port"], seen["share"])
        assert place == ("127.0.0.1", 7860, False)
    assert (open_["root_path"], behind["root_path"]) == (None, url)
    places = ("http://127.0.0.1:7860/", f"{url}/")
    lines = [f"Open {address} in a browser; Ctrl+C ends." for address in places]
    assert capsys.readouterr().out.splitlines() == lines

    def statuses(seen: dict, *hosts: str) -> list[int]:
        hosts_of, no_urls = seen["app_kwargs"]["middleware"]
        assert hosts_of.cls is TrustedHostMiddleware
        app = no_urls.cls(hosts_of.cls(Response(), *hosts_of.args))
        return [status(app, host) for host in hosts]

    names = ("127.0.0.1:1", "localhost", "[::1]:1", "evil.example", "127.0.0.1.evil.example", "")
    assert statuses(open_, *names) == [200, 200, 200, 400, 400, 400]
    assert statuses(behind, "demo.example", "a.example") == [200, 400]
    assert statuses(launched(is_private=False), "a.example") == [200]
    app = open_["app_kwargs"]["middleware"][1].cls(Response())
    assert status(app, "localhost", "/gradio_api/file=http://example.invalid/a.png") == 404


def status(app, host: str, path: str = "/config") -> int:
    """Status of the response of an ASGI application to a request of a host."""
    return TestClient(app).get(path, headers={"Host": host}).status_code


def test_a_model_without_lambda_layers_says_so():
    inputs = keras.Input((8, 8, 3))
    outputs = keras.layers.Softmax()(keras.layers.GlobalAveragePooling2D()(inputs))
    plain = Classifier("plain", keras.Model(inputs, outputs), Preprocessing(8, 1), "abc")
    found = []
    for shown in (Demo(plain), demo()):
        components = built(shown.build).get_config_file()["components"]
        found.append([(one["type"], str(one["props"].get("value"))) for one in components])
    assert [[kind for kind, _ in one].count("image") for one in found] == [1, 3]
    assert any("plain has no lambda layers, so there is no map" in text for _, text in found[0])
