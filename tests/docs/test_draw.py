"""The demo of the site's first page, in the site that `make docs` built, in a browser."""

import re
import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support import needs

from lambda_keras.applications.preprocessing import Preprocessing
from zoo.data.crops import resize_center
from zoo.data.sources.digits import load_gray_digits

SITE = pytest.mark.needs("build/docs/_static/draw.js", "chromium")
pytestmark = [pytest.mark.one_backend, pytest.mark.slow, SITE]
SIDE = 32  # of digits whose lines are traced, in pixels
WINDOW = 9
# Neighbors of a pixel, clockwise from the one above.
AROUND = ((-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1))


def thinned(on: np.ndarray) -> np.ndarray:
    """Lines of one pixel in the middle of shapes (Zhang and Suen, 1984)."""
    on, before = np.pad(on, 1), -1
    while before != (before := on.sum()):
        for is_first in (True, False):
            ring = [np.roll(on, (-row, -column), (0, 1)) for row, column in AROUND]
            up, right, down, left = ring[::2]
            count = np.sum(ring, 0)
            begins = np.sum([~a & b for a, b in zip(ring, ring[1:] + ring[:1], strict=True)], 0)
            inner = right & down & (up | left) if is_first else up & left & (right | down)
            on = on & ~((count >= 2) & (count <= 6) & (begins == 1) & ~inner)
    return on[1:-1, 1:-1]


def traced(levels: np.ndarray) -> list[list[list[float]]]:
    """Lines of a pen along the ridges of a digit: lists of points in a square of 1 x 1."""
    image = Image.fromarray(levels.astype("float32")).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    ink = np.clip(image, 0, 16)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(ink, WINDOW // 2), (WINDOW, WINDOW))
    # Relative to the darkest around, or loops would be filled.
    left = set(map(tuple, np.argwhere(thinned((ink >= 0.6 * windows.max((2, 3))) & (ink >= 5)))))

    def next_to(place):
        places = [(place[0] + row, place[1] + column) for row, column in AROUND]
        return sorted(left & set(places), key=lambda one: places.index(one) % 2)  # straight first

    strokes = []
    while left:
        path = [min(left, key=lambda place: (len(next_to(place)), place))]  # ends first
        left.remove(path[0])
        while following := next_to(path[-1]):
            path.append(following[0])
            left.remove(following[0])
        strokes.append([[(x + 0.5) / SIDE, (y + 0.5) / SIDE] for y, x in path])
    return strokes


@pytest.fixture
def page(browser, address) -> Iterator:
    """The page on a telephone with a touch screen; it may not fail, nor ask other servers."""
    page = browser.new_page(viewport={"width": 390, "height": 1000}, has_touch=True)
    page.set_default_timeout(60_000)  # on a busy machine
    errors, addresses = [], []
    page.on("pageerror", lambda error: errors.append(error))
    page.on("request", lambda request: addresses.append(request.url))
    page.goto(f"{address}docs/index.html")
    page.locator("#draw").scroll_into_view_if_needed()
    yield page
    page.close()
    assert not errors
    assert all(one.startswith((address, "data:", "blob:")) for one in addresses)


def draw(page, strokes) -> None:
    box = page.get_by_label("Paper").bounding_box()
    for stroke in strokes:
        (x, y), *others = (
            (box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in stroke
        )
        page.mouse.move(x, y)
        page.mouse.down()
        for x, y in others:
            page.mouse.move(x, y)
        page.mouse.up()
    page.wait_for_selector("#draw[aria-busy=false]")


def test_the_first_held_out_digit_of_each_class_is_recognized(page, capsys):
    levels, labels = load_gray_digits()[1]
    found, milliseconds = [], []
    for digit in range(10):
        page.get_by_role("button", name="Clear").click()
        draw(page, traced(levels[list(labels).index(digit)]))
        found.append(int(page.locator("#draw").get_attribute("data-digit")))
        milliseconds.append(float(page.locator("#draw").get_attribute("data-milliseconds")))
        status = page.get_by_role("status").inner_text()
        assert re.fullmatch(rf"A {found[-1]} \(\d+ %\), in [\d.]+ ms", status)
    with capsys.disabled():
        print(f"\ndrawn 0 to 9, found {found}, median {statistics.median(milliseconds):.1f} ms")
    assert found == list(range(10))


def test_drawings_become_images_as_in_training(page):
    """The first page states both accuracies: of images, and of their traced lines."""
    levels, labels = load_gray_digits()[1]
    inputs = {"levels": levels.reshape(-1, 64).tolist(), "strokes": list(map(traced, levels))}
    program = Path(__file__).with_name("draw.js").read_text("utf-8")
    images, fill, small, of_images, of_lines = page.evaluate(program, inputs)
    for image, gray in zip(images, levels, strict=False):
        pixels = np.repeat(np.round(gray[..., None] * (255 / 16)), 3, -1).astype("uint8")
        expected = resize_center(pixels, Preprocessing(SIDE, 1.0, "bilinear"))
        np.testing.assert_allclose(np.reshape(image, expected.shape), expected, atol=1e-3)
    fill = np.reshape(fill, levels.shape)
    assert (fill.min(), fill.max()) == (0, 16)
    np.testing.assert_allclose(np.reshape(small, (20, 8, 8)), fill[:20], atol=1)
    assert (fill[:, [0, -1]].max((1, 2)) > 4).all()  # drawings fill the height
    stated = re.findall(r"([\d.]+) % of (?:360|their)", page.locator("article").inner_text())
    correct = [100 * (np.argmax(found, -1) == labels).mean() for found in (of_images, of_lines)]
    np.testing.assert_allclose(np.array(stated, float), correct, atol=1)  # edges of lines differ


def test_maps_follow_the_position_and_keyboard_and_touch_work(page):
    page.get_by_role("button", name="Example").click()
    page.wait_for_selector("#draw[aria-busy=false]")
    assert page.locator("#draw").get_attribute("data-digit") == "3"
    view, content = (page.get_by_label(name) for name in ("What the network sees", "Content map"))
    pictures = [content.evaluate("canvas => canvas.toDataURL()")]
    view.press("ArrowUp")
    view.press("ArrowRight")
    assert page.get_by_text("row 4, column 6").is_visible()
    pictures.append(content.evaluate("canvas => canvas.toDataURL()"))
    box = view.bounding_box()
    page.touchscreen.tap(box["x"] + 2, box["y"] + 2)
    assert page.get_by_text("row 1, column 1").is_visible()
    pictures.append(content.evaluate("canvas => canvas.toDataURL()"))
    assert len(set(pictures)) == 3
    page.get_by_role("button", name="Clear").click()
    assert page.get_by_role("status").inner_text() == "Draw a digit"
    assert page.locator("#draw").get_attribute("data-digit") is None
    box = page.get_by_label("Paper").bounding_box()
    page.touchscreen.tap(box["x"] + 50, box["y"] + 50)
    page.wait_for_selector("#draw[data-digit][aria-busy=false]")
    mean = page.evaluate(
        """async () => {
            const {meanMap} = await import("/_static/draw.js");
            return meanMap(Array.from({length: 64 * 3 * 64}, (_, i) => i), 2, 5);
        }"""
    )
    maps = np.arange(64 * 3 * 64).reshape(8, 8, 3, 8, 8)
    np.testing.assert_allclose(mean, maps[2, 5].mean(0).ravel())


def test_nothing_is_wider_than_the_page_and_sizes_are_as_stated(page):
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    before = page.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")
    assert not any("onnx" in one or "ort" in one for one in before)  # the first stroke loads them
    page.get_by_role("button", name="Example").click()
    page.wait_for_selector("#draw[aria-busy=false]")
    runtime, network = (
        sum(path.stat().st_size for path in (needs.SITE / "_static").glob(pattern)) / 1e6
        for pattern in ("ort*", "digits.onnx")
    )
    text = page.locator("article").inner_text()
    stated = re.findall(r"([\d.]+) MB", text.split("Draw a digit")[1])[:3]
    assert stated == [f"{size:.1f}" for size in (runtime + network, runtime, network)]
