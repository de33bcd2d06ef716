"""The page that shows what a model sees: a real server, asked as programs and as people do."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
from gradio_client import Client, exceptions, handle_file
from PIL import Image
from sklearn.datasets import load_sample_images
from support import commands
from support.loopback import free_port

from zoo.demo import __main__ as demo
from zoo.demo import page as demo_page
from zoo.demo.page import NOT_UPLOADED
from zoo.detection import source
from zoo.inference.lambda_maps import lambda_layers
from zoo.inference.source.run import Run

fail = partial(commands.fail, demo.main)

ROOT = Path(__file__).resolve().parents[3]
CHROMIUM = shutil.which("chromium")
BROWSER = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


# Width of the text of a dropdown, and what there is up to its arrow.
ROOM = """input => {
    const style = getComputedStyle(input), pen = document.createElement("canvas").getContext("2d");
    const arrow = input.parentElement.querySelector(".icon-wrap").getBoundingClientRect();
    pen.font = style.font;
    const begin = input.getBoundingClientRect().left + parseFloat(style.paddingLeft);
    return {needed: pen.measureText(input.value).width, room: arrow.left - begin};
}"""


@pytest.fixture(scope="module")
def server(run, tmp_path_factory) -> Iterator[str]:
    """Address of a server of the run, which has to end when it is told to."""
    command = [sys.executable, "-m", "zoo.demo", "--run", str(run)]
    port, folder = free_port(), tmp_path_factory.mktemp("uploads")
    with subprocess.Popen(
        [*command, "--port", str(port)],
        cwd=ROOT,
        env={**os.environ, "GRADIO_TEMP_DIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        printed = []
        for line in process.stdout:
            printed.append(line)
            if line.startswith("Open "):
                break
        else:
            pytest.fail("".join(printed))
        assert line == f"Open http://127.0.0.1:{port}/ in a browser; Ctrl+C ends.\n"
        yield f"http://127.0.0.1:{port}/"
        process.terminate()
        rest = process.communicate(timeout=60)[0]
        assert process.returncode == 0, rest
        assert "unreadable" not in rest  # the page shows it; the terminal is no place for it
    left = [path for path in folder.rglob("*") if path.is_file()]
    assert not left, "images and pictures are left behind"


@pytest.fixture(scope="module")
def client(server) -> Client:
    return Client(server, verbose=False, analytics_enabled=False)


@pytest.fixture(scope="module")
def china(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("photos") / "china.jpg"
    Image.fromarray(load_sample_images().images[0]).save(path)
    return path


def test_names_what_an_image_shows(client, run, china):
    answer = client.predict(handle_file(china), api_name="/predict")
    (expected,) = Run(run).load().predict_files([china], 5)
    assert answer["label"] == expected.top[0].name
    assert [(row["label"], row["confidence"]) for row in answer["confidences"]] == [
        (guess.name, pytest.approx(guess.probability, abs=1e-5)) for guess in expected.top
    ]


def test_shows_where_a_layer_looked(client, run, china):
    layer = list(lambda_layers(Run(run).load().model))[-1]
    pictures = []
    for head, x, y in ((-1, 8, 8), (0, 8, 8), (-1, 2, 8)):
        answer = client.predict(handle_file(china), layer, head, x, y, api_name="/look")
        view, title, maps = answer
        with Image.open(view) as image:
            assert image.size == (480, 480)
        with Image.open(maps) as image:
            pictures.append(np.asarray(image))
        column = x * 4 // 16 + 1
        assert title.startswith(f"**What goes into the output at row 3, column {column} of 4 x 4**")
    assert pictures[0].shape[1] > pictures[0].shape[0] > 500  # two maps, side by side
    assert np.ptp(pictures[0][..., 0].astype(int) - pictures[0][..., 2]) > 100  # red and blue
    assert not np.array_equal(pictures[0], pictures[1])
    assert not np.array_equal(pictures[0], pictures[2])


@pytest.mark.parametrize("content", ["cut", "text", "empty"])
def test_a_corrupt_image_gets_a_message(client, china, tmp_path, content):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes({"cut": china.read_bytes()[:5000], "text": b"no", "empty": b""}[content])
    with pytest.raises(exceptions.AppError, match=r"^unreadable image: broken.jpg \(") as error:
        client.predict(handle_file(broken), api_name="/predict")
    assert "/" not in str(error.value)
    assert client.predict(handle_file(china), api_name="/predict")["label"]


# Certificates take a while to load, and nobody closes what is kept alive.
WEB = httpx.Client(verify=False, timeout=60, limits=httpx.Limits(max_keepalive_connections=0))


def call(server: str, name: str, *data) -> str:
    """Calls the page's API like a program that is not Gradio's own; returns the whole response."""
    address = f"{server}gradio_api/call/{name}"
    body = json.dumps({"data": data})
    asked = WEB.post(address, content=body, headers={"Content-Type": "application/json"}).json()
    return WEB.get(f"{address}/{asked['event_id']}").text


def upload(server: str, photo: Path) -> str:
    """Uploads an image and returns where the server keeps it."""
    files = {"files": (photo.name, photo.read_bytes())}
    return WEB.post(f"{server}gradio_api/upload", files=files).json()[0]


META = {"meta": {"_type": "gradio.FileData"}}


@pytest.fixture
def closed(server, china, tmp_path) -> Iterator[dict[str, Any]]:
    """Paths that are not of uploads, or not of files, by what they are."""
    uploads = Path(upload(server, china)).parents[1]
    links = {"link": china, "folder": uploads, "outside": tmp_path}
    for name, target in links.items():
        (uploads / name).symlink_to(target)
    os.mkfifo(uploads / "fifo.png")
    relative = os.path.relpath(china, uploads)
    yield {
        "an image": str(china),
        "no image": str(ROOT / "README.md"),
        "nothing": str(tmp_path / "none.png"),
        "not readable": "/proc/1/mem",
        "relative": os.path.relpath(china, ROOT),
        "dots": f"{uploads}/{relative}",
        "dots of a missing folder": f"{uploads}/none/../{relative}",
        "link": f"{uploads}/link",
        "linked folder": f"{uploads}/outside/none.png",
        "folder": str(uploads),
        "fifo": f"{uploads}/fifo.png",
        "device": "/dev/zero",
        "begins alike": f"{uploads}-other/china.jpg",
        "url": "http://127.0.0.1:9/china.jpg",
        "url of a file": china.as_uri(),
        "data": "data:image/png;base64,AAAA",
        "empty": "",
        "null byte": f"{uploads}/\0",
        "long": f"{uploads}/{'a' * 5000}",
        "half a character": "\ud800",
        "number": 7,
        "list": [str(china)],
    }
    for name in (*links, "fifo.png"):
        (uploads / name).unlink()


def test_files_of_the_server_stay_closed(server, closed):
    """Only uploads are opened, and nothing tells what else there is on the disk."""
    refusal = call(server, "predict", {"path": "/nowhere.png"})
    assert refusal.startswith("event: error")
    assert NOT_UPLOADED in refusal
    photo = {"path": closed["an image"]}
    assert call(server, "look", photo, "stage3_block1", -1, 8, 8) == refusal
    for more in ({"is_stream": True}, {"url": photo["path"]}, {"url": "http://127.0.0.1:9/"}):
        assert call(server, "predict", {**photo, **META, **more}) == refusal, more
    for kind, path in closed.items():
        for more in ({}, META):
            assert call(server, "predict", {"path": path, **more}) == refusal, (kind, more)
    for photo in (str(closed["an image"]), {"url": "http://127.0.0.1:9/"}, [], {}, 5):
        assert call(server, "predict", photo) == refusal, photo


def test_files_of_the_server_are_not_sent(server, closed, run):
    for kind, path in closed.items():
        if isinstance(path, str) and path.isprintable() and kind != "empty":
            answer = WEB.get(f"{server}gradio_api/file={path}")
            assert answer.is_error, kind
    for path in (run / "config.yaml", "zoo/demo/page.py", ".git/config"):
        assert WEB.get(f"{server}gradio_api/file={path}").status_code == 403
    for path in ("file=http://example.invalid/a.png", "proxy=http://example.invalid/a.png"):
        assert WEB.get(f"{server}gradio_api/{path}").status_code == 404


def test_uploads_are_opened_without_meta_too(server, china):
    assert call(server, "predict", {"path": upload(server, china)}).startswith("event: complete")


@pytest.mark.parametrize("name", ["evil.example", "127.0.0.1.evil.example", "0.0.0.0", "", "[::2]"])
def test_other_names_of_the_address_get_nothing(server, name):
    """A foreign page can point its own name here, and would then read what comes back."""
    port = httpx.URL(server).port
    for path in ("", "config", "gradio_api/info"):
        answer = WEB.get(f"{server}{path}", headers={"Host": f"{name}:{port}"})
        assert (answer.status_code, answer.text) == (400, "Invalid host header")
    answer = WEB.get(f"{server}config", headers={"Host": f"localhost:{port}"})
    assert answer.status_code == 200


def test_listens_on_one_address_and_asks_for_nothing_elsewhere(server):
    port = httpx.URL(server).port
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass
    # Another address of this machine, as that of its network card is.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=5)
    config = WEB.get(f"{server}config").json()
    assert config["analytics_enabled"] is False
    assert config["title"] == "What lambda_resnet14 sees"
    page = WEB.get(server).text
    assert not re.search(r"fonts\.g|<(script|link)[^>]*https?://", page)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium (apt-get install chromium)")
def test_people_can_use_it(server, china, tmp_path):
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=60_000)  # on a busy machine

    broken = tmp_path / "broken.jpg"
    broken.write_bytes(china.read_bytes()[:5000])
    addresses = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=BROWSER)
        page = browser.new_page(viewport={"width": 1200, "height": 1000})
        page.on("request", lambda request: addresses.append(request.url))
        page.goto(server)
        expect(page.get_by_role("heading", name="What lambda_resnet14 sees")).to_be_visible()
        upload, view, maps = (
            page.locator(part) for part in ("input[type=file]", "#view img", "#maps img")
        )

        upload.set_input_files(china)
        expect(maps).to_be_visible()
        expect(page.get_by_text(re.compile(r"^\d+%$"))).to_have_count(5)
        title = page.get_by_text("What goes into the output at")
        expect(title).to_have_text("What goes into the output at row 5, column 5 of 8 x 8")

        box = view.bounding_box()
        view.click(position={"x": 0.95 * box["width"], "y": 0.05 * box["height"]})
        expect(title).to_have_text("What goes into the output at row 1, column 8 of 8 x 8")
        expect(page.get_by_label("number input for Pixels from the left")).to_have_value("15")
        page.get_by_label("Lambda layer").click()
        page.get_by_role("option").last.click()
        expect(title).to_have_text("What goes into the output at row 1, column 4 of 4 x 4")
        shot = tmp_path / "page.png"
        page.screenshot(path=shot, full_page=True)
        for width in (1200, 390):  # of a desk, of a telephone
            page.set_viewport_size({"width": width, "height": 1000})
            for label in ("Lambda layer", "Head"):
                shown = page.get_by_label(label).evaluate(ROOM)
                assert 0 < shown["needed"] <= shown["room"], (width, label)

        page.get_by_label("Remove Image").click()
        expect(maps).to_have_count(0)
        upload.set_input_files(broken)
        expect(page.get_by_text("unreadable image: broken.jpg (")).to_be_visible()
        expect(maps).to_have_count(0)
        browser.close()
    with Image.open(shot) as image:
        assert image.width == 1200
        assert len(image.getcolors(image.width * image.height)) > 1000
    assert len(addresses) > 10
    assert all(address.startswith((server, "data:", "blob:")) for address in addresses)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("", "expected --run, or --model and --weights"),
        ("--model lambda_resnet14", "expected --weights imagenet, or a file"),
        (
            "--run runs --labels lambda_keras/applications/imagenet_classes.txt",
            "--run already says which model",
        ),
        ("--run runs --port 0", "port: Input should be greater than or equal to 1"),
        ("--run runs --host no.such.host.invalid", "expected --host and --port of a free address"),
        ("--run runs --host 192.0.2.1", "expected --host and --port of a free address"),
        ("--run runs --url hub.example.org", "url: expected http(s)://HOST/PATH of a proxy"),
        ("--run runs --url https://*/x", "url: expected http(s)://HOST/PATH of a proxy"),
        ("--run runs --url http://a.example/?x=1", "url: expected http(s)://HOST/PATH of a proxy"),
        ("--run runs --share true", "no such setting. Received: '--share'"),
    ],
)
def test_wrong_settings_come_before_the_model(monkeypatch, capsys, no_model, arguments, reason):
    assert reason in fail(monkeypatch, capsys, *arguments.split())


def test_a_port_in_use_comes_before_the_model(monkeypatch, capsys, no_model):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        error = fail(monkeypatch, capsys, "--run", "runs", "--port", str(port))
    assert f"Received: 127.0.0.1:{port}" in error


PAGE = """
import sys
import keras
from lambda_keras.applications.preprocessing import Preprocessing
from zoo.demo.classification import Demo
from zoo.demo.page import serve
from zoo.inference.classifier import Classifier
inputs = keras.Input((8, 8, 3))
outputs = keras.layers.Softmax()(keras.layers.GlobalAveragePooling2D()(inputs))
plain = Classifier("plain", keras.Model(inputs, outputs), Preprocessing(8, 1), "abc")
serve(Demo(plain), "127.0.0.1", int(sys.argv[1]), "größe 12", True, "https://demo.example/demo")
"""


def test_a_password_is_asked_for(tmp_path):
    """By a server on loopback, behind a proxy with another name that removes a path."""
    port = free_port()
    with subprocess.Popen(
        [sys.executable, "-c", PAGE, str(port)],
        cwd=ROOT,
        env={**os.environ, "GRADIO_TEMP_DIR": str(tmp_path), "GRADIO_ANALYTICS_ENABLED": "False"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline().startswith("Open https://demo.example/demo/ in")
        page = f"http://127.0.0.1:{port}/"
        (tmp_path / "picture.png").write_bytes(b"of somebody else")
        inside = f"gradio_api/file={tmp_path / 'picture.png'}"
        with httpx.Client(base_url=page, headers={"Host": "demo.example"}) as browser:

            def statuses() -> list[int]:
                photo = {"files": ("a.png", b"")}
                return [
                    browser.get("config").status_code,
                    browser.get(inside).status_code,
                    browser.post("gradio_api/upload", files=photo).status_code,
                    browser.post("gradio_api/call/predict", json={"data": [None]}).status_code,
                ]

            assert statuses() == [401] * 4
            for password in ("", "größe 1", "größe 123"):
                tried = {"username": "me", "password": password}
                assert browser.post("login", data=tried).status_code == (
                    422 if not password else 400
                )
            assert statuses() == [401] * 4
            browser.post(
                "login", data={"username": "me", "password": "größe 12"}
            ).raise_for_status()
            assert statuses() == [200] * 4
            assert browser.get("config").json()["root"] == "https://demo.example/demo"
            assert browser.get("config", headers={"Host": "a.example"}).status_code == 400
        process.terminate()
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_a_password_is_required_where_others_can_come_in(monkeypatch, capsys, host):
    monkeypatch.setattr(source, "choose_source", lambda _: SimpleNamespace(load=lambda: None))
    monkeypatch.setenv("GRADIO_TEMP_DIR", "")
    monkeypatch.delenv("GRADIO_TEMP_DIR")  # and restores it
    served, modes = [], []

    def serve(*call):
        served.append(call)
        modes.append(os.stat(os.environ["GRADIO_TEMP_DIR"]).st_mode & 0o777)

    monkeypatch.setattr(demo_page, "serve", serve)
    arguments = ("--run", "runs", "--host", host, "--port", str(free_port()))
    if host == "127.0.0.1":
        demo.main(arguments)
        assert served[0][3:] == (None, True, None)
        assert modes == [0o700]  # others on this machine neither read uploads nor place links
        assert not Path(os.environ["GRADIO_TEMP_DIR"]).exists()
    else:
        line = fail(monkeypatch, capsys, *arguments)
        assert "expected --password_file with a --host that others can reach" in line
        assert not served


def test_missing_gradio_says_what_to_install(monkeypatch, capsys, no_model):
    monkeypatch.setitem(sys.modules, "gradio", None)
    monkeypatch.delitem(sys.modules, "zoo.demo.page")
    error = fail(monkeypatch, capsys, "--run", "runs", "--port", str(free_port()))
    assert error.startswith("error: gradio is not installed: pip install 'SOURCE[demo]', SOURCE ")


def test_no_run_is_said_in_one_line(monkeypatch, capsys, tmp_path):
    arguments = ("--run", str(tmp_path), "--port", str(free_port()))
    assert "expected the folder of a finished run" in fail(monkeypatch, capsys, *arguments)
