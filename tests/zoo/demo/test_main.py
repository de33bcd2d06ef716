"""The page that shows what a model sees: a real server, asked as programs and as people do."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from gradio_client import Client, handle_file
from PIL import Image
from sklearn.datasets import load_sample_images
from support import commands, needs
from support.loopback import free_port

from zoo.demo import __main__ as demo
from zoo.demo import classification, command
from zoo.demo.page import NOT_UPLOADED
from zoo.inference.lambda_maps import lambda_layers
from zoo.inference.source.run import Run

fail = partial(commands.fail, demo.main)

ROOT = Path(__file__).resolve().parents[3]
BROWSER = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
BROWSER += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
# Width of the text of a dropdown, and what there is up to its arrow.
ROOM = """input => {
    const style = getComputedStyle(input), pen = document.createElement("canvas").getContext("2d");
    const arrow = input.parentElement.querySelector(".icon-wrap").getBoundingClientRect();
    pen.font = style.font;
    const begin = input.getBoundingClientRect().left + parseFloat(style.paddingLeft);
    return {needed: pen.measureText(input.value).width, room: arrow.left - begin};
}"""
# Certificates take a while to load, and nobody closes what is kept alive.
WEB = httpx.Client(verify=False, timeout=60, limits=httpx.Limits(max_keepalive_connections=0))


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
def china(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("photos") / "china.jpg"
    Image.fromarray(load_sample_images().images[0]).save(path)
    return path


@pytest.mark.slow
def test_programs_can_use_it(server, run, china):
    client = Client(server, verbose=False, analytics_enabled=False)
    answer = client.predict(handle_file(china), api_name="/predict")
    classifier = Run(run).load()
    expected = classifier(china)
    assert answer["label"] == expected[0].name
    assert [(row["label"], row["confidence"]) for row in answer["confidences"]] == [
        (guess.name, pytest.approx(guess.probability, abs=1e-5)) for guess in expected
    ]
    layer = list(lambda_layers(classifier.model))[-1]
    view, title, maps = client.predict(handle_file(china), layer, -1, 2, 8, api_name="/look")
    assert title.startswith("**What goes into the output at row 3, column 1 of 4 x 4**")
    with Image.open(view) as image, Image.open(maps) as other:
        assert image.size == (480, 480)
        assert other.width > other.height > 500  # two maps, side by side


def call(server: str, name: str, *data) -> str:
    """Calls the page's API like a program that is not Gradio's own; returns the whole response."""
    address = f"{server}gradio_api/call/{name}"
    asked = WEB.post(address, json={"data": data}).json()
    return WEB.get(f"{address}/{asked['event_id']}").text


@pytest.mark.slow
def test_files_of_the_server_stay_closed(server, china, run):
    """Only uploads are opened; test_page has further kinds of paths."""
    files = {"files": (china.name, china.read_bytes())}
    own = WEB.post(f"{server}gradio_api/upload", files=files).json()[0]
    assert call(server, "predict", {"path": own}).startswith("event: complete")
    refusal = call(server, "predict", {"path": "/nowhere.png"})
    assert refusal.startswith("event: error")
    assert NOT_UPLOADED in refusal
    photo = {"path": str(china)}
    assert call(server, "look", photo, "stage3_block1", -1, 8, 8) == refusal
    for more in ({"is_stream": True}, {"url": photo["path"]}, {"url": "http://127.0.0.1:9/"}):
        meta = {"meta": {"_type": "gradio.FileData"}}
        assert call(server, "predict", {**photo, **meta, **more}) == refusal, more
    for path in (china, run / "config.yaml", "zoo/demo/page.py", ".git/config"):
        assert WEB.get(f"{server}gradio_api/file={path}").status_code == 403
    for path in ("file=http://example.invalid/a.png", "proxy=http://example.invalid/a.png"):
        assert WEB.get(f"{server}gradio_api/{path}").status_code == 404


@pytest.mark.slow
def test_listens_on_one_address_and_asks_for_nothing_elsewhere(server):
    # Another address of this machine, as that of its network card is.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", httpx.URL(server).port), timeout=5)
    answer = WEB.get(f"{server}config", headers={"Host": "evil.example"})
    assert (answer.status_code, answer.text) == (400, "Invalid host header")
    config = WEB.get(f"{server}config").json()
    assert config["analytics_enabled"] is False
    assert config["title"] == "What lambda_resnet14 sees"
    assert not re.search(r"fonts\.g|<(script|link)[^>]*https?://", WEB.get(server).text)


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_people_can_use_it(server, china, tmp_path):
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=60_000)  # on a busy machine

    broken = tmp_path / "broken.jpg"
    broken.write_bytes(china.read_bytes()[:5000])
    addresses = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=needs.CHROMIUM, args=BROWSER)
        page = browser.new_page(viewport={"width": 1200, "height": 1000})
        page.on("request", lambda request: addresses.append(request.url))
        page.goto(server)
        expect(page.get_by_role("heading", name="What lambda_resnet14 sees")).to_be_visible()
        parts = ("input[type=file]", "#view img", "#maps img")
        upload, view, maps = map(page.locator, parts)

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
    assert len(addresses) > 10
    assert all(address.startswith((server, "data:", "blob:")) for address in addresses)


def test_host_that_others_can_reach_too():
    found = [(socket.AF_INET, 0, 0, "", (one, 0)) for one in ("127.0.0.1", "192.0.2.1")]
    for addresses, private in ((found[:1], True), (found, False)):
        resolve = lambda *_, found=addresses, **__: found  # noqa: E731
        assert command.check_address("host", 0, resolve) is private


def test_a_port_in_use_comes_before_the_model(capsys, no_model):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        error = fail(capsys, "--run", "runs", "--port", str(port))
    assert f"Received: 127.0.0.1:{port}" in error


def test_uploads_lie_in_a_folder_of_this_user_that_is_removed(environ, tmp_path):
    environ(GRADIO_TEMP_DIR=None)
    served, url = [], "https://hub.example.org/proxy/"

    def serve(*call):
        mode = os.stat(os.environ["GRADIO_TEMP_DIR"]).st_mode
        served.append((*call, mode & 0o777))

    config = commands.parse("zoo.demo", ["--run", "runs", "--url", url, "--precision", "float32"])
    command.show(config, "page", serve, "12345678", True)
    # Others on this machine neither read uploads nor place links.
    assert served == [("page", "127.0.0.1", 7860, "12345678", True, url, 0o700)]
    assert not Path(os.environ["GRADIO_TEMP_DIR"]).exists()
    network = SimpleNamespace(computing_in=lambda precision: f"network in {precision}")
    shown = classification.load(config, lambda _: SimpleNamespace(load=lambda: network))
    assert shown.classifier == "network in float32"


@pytest.mark.usefixtures("no_model")
def test_missing_gradio_says_what_to_install(modules, capsys):
    modules(**{"gradio": None, "zoo.demo.page": ...})
    error = fail(capsys, "--run", "runs", "--port", str(free_port()))
    assert error.startswith("error: gradio is not installed: pip install 'SOURCE[demo]', SOURCE ")
