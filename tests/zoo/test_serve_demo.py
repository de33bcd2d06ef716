"""The page that shows what a model sees: a real server, asked as programs and as people do."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import commands
import httpx
import numpy as np
import pytest
from gradio_client import Client, exceptions, handle_file
from loopback import free_port
from PIL import Image
from sklearn.datasets import load_sample_images

from zoo import serve_demo
from zoo.inference import Classifier
from zoo.lambda_maps import lambda_layers

fail = partial(commands.fail, serve_demo.main)

ROOT = Path(__file__).resolve().parents[2]
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


@pytest.fixture(scope="module")
def server(run, tmp_path_factory) -> Iterator[str]:
    """Address of a server of the run, which has to end when it is told to."""
    command = [sys.executable, "-m", "zoo.serve_demo", "--run", str(run)]
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
    assert not left, "photographs and pictures are left behind"


@pytest.fixture(scope="module")
def client(server) -> Client:
    return Client(server, verbose=False, analytics_enabled=False)


@pytest.fixture(scope="module")
def china(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("photos") / "china.jpg"
    Image.fromarray(load_sample_images().images[0]).save(path)
    return path


def test_names_what_a_photograph_shows(client, run, china):
    answer = client.predict(handle_file(china), api_name="/ask")
    (expected,) = Classifier.from_run(run).ask([china], 5)
    assert answer["label"] == expected.top[0].name
    assert [(row["label"], row["confidence"]) for row in answer["confidences"]] == [
        (guess.name, pytest.approx(guess.probability, abs=1e-5)) for guess in expected.top
    ]


def test_shows_where_a_layer_looked(client, run, china):
    layer = list(lambda_layers(Classifier.from_run(run).model))[-1]
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
def test_a_corrupt_photograph_gets_a_message(client, china, tmp_path, content):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes({"cut": china.read_bytes()[:5000], "text": b"no", "empty": b""}[content])
    with pytest.raises(
        exceptions.AppError, match=r"^unreadable photograph: broken.jpg \("
    ) as error:
        client.predict(handle_file(broken), api_name="/ask")
    assert "/" not in str(error.value)
    assert client.predict(handle_file(china), api_name="/ask")["label"]


def test_files_of_the_server_stay_closed(server, china):
    """Only uploaded photographs are opened, though there are others on its disk."""
    photo = {"path": str(china), "meta": {"_type": "gradio.FileData"}}
    asked = httpx.post(f"{server}gradio_api/call/ask", json={"data": [photo]}).json()
    answer = httpx.get(f"{server}gradio_api/call/ask/{asked['event_id']}").text
    assert answer.startswith("event: error")
    assert httpx.get(f"{server}gradio_api/file={china}").status_code == 403


def test_listens_on_one_address_and_asks_for_nothing_elsewhere(server):
    port = httpx.URL(server).port
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass
    # Another address of this machine, as that of its network card is.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=5)
    config = httpx.get(f"{server}config").json()
    assert config["analytics_enabled"] is False
    assert config["title"] == "What lambda_resnet14 sees"
    page = httpx.get(server).text
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

        page.get_by_label("Remove Image").click()
        expect(maps).to_have_count(0)
        upload.set_input_files(broken)
        expect(page.get_by_text("unreadable photograph: broken.jpg (")).to_be_visible()
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


def test_missing_gradio_says_what_to_install(monkeypatch, capsys, no_model):
    monkeypatch.setitem(sys.modules, "gradio", None)
    error = fail(monkeypatch, capsys, "--run", "runs", "--port", str(free_port()))
    assert error == "error: gradio is not installed: pip install 'lambda_keras[demo]'\n"


def test_no_run_is_said_in_one_line(monkeypatch, capsys, tmp_path):
    arguments = ("--run", str(tmp_path), "--port", str(free_port()))
    assert "expected the folder of a finished run" in fail(monkeypatch, capsys, *arguments)
