"""Pages of the site that `make docs` built, on a telephone."""

from collections.abc import Iterator

import pytest

SITE = pytest.mark.needs("build/docs/_static/draw.js", "chromium")
pytestmark = [pytest.mark.one_backend, pytest.mark.slow, SITE]
WIDTH = 390


@pytest.fixture
def open_page(browser, address) -> Iterator:
    page = browser.new_page(viewport={"width": WIDTH, "height": 1000})
    page.set_default_timeout(60_000)  # on a busy machine
    errors = []
    page.on("pageerror", lambda error: errors.append(error))

    def open_(name):
        page.goto(f"{address}{name}.html")
        assert page.evaluate("document.documentElement.scrollWidth") == WIDTH
        return page

    yield open_
    page.close()
    assert not errors


def test_first_figure_is_shown_whole_with_legible_letters(open_page):
    figure = open_page("docs/index").locator("article img").first
    assert figure.get_attribute("src").endswith("_training.svg")
    box, natural = figure.bounding_box(), figure.evaluate("image => image.naturalWidth")
    assert box["x"] + box["width"] <= WIDTH
    assert box["width"] / natural * 10 / 0.75 > 10  # pixels of letters of 10 points


def test_names_of_networks_do_not_break(open_page):
    links = open_page("docs/models").locator("article td:first-child a")
    assert links.count() > 60
    lines = "links => links.map((one) => one.getClientRects().length)"
    assert {*links.evaluate_all(lines)} == {1}


def test_reasons_are_on_the_page(open_page):
    cells = open_page("docs/performance").locator("article td[data-head=reason]")
    assert cells.count() >= 6
    ends = cells.evaluate_all("cells => cells.map((one) => one.getBoundingClientRect().right)")
    assert max(ends) <= WIDTH
    assert "reason" in cells.first.evaluate("cell => getComputedStyle(cell, '::before').content")


def test_notebooks_have_tables_sharp_figures_and_one_gray(open_page):
    page = open_page("notebooks/paper_tables")
    assert "| --- |" not in page.locator("article").inner_text()
    assert page.locator(".cell_output table").count() == 4
    widths = "images => images.map((one) => [one.naturalWidth, Number(one.getAttribute('width'))])"
    sizes = page.locator(".cell_output img").evaluate_all(widths)
    assert sizes
    assert all(natural >= 2 * width - 1 > 0 for natural, width in sizes)
    colors = "parts => parts.map((one) => getComputedStyle(one).backgroundColor)"
    colors = page.locator(".cell_input, .cell pre, .cell .highlight").evaluate_all(colors)
    assert len(set(colors) - {"rgba(0, 0, 0, 0)"}) == 1


def test_old_links_to_constructors_lead_to_their_pages(open_page):
    page = open_page("docs/reference/applications")
    name = "lambda_keras.applications.LambdaResNet50"
    page.locator(f"[id='{name}'] + a").click()
    page.wait_for_url(f"**/docs/reference/networks/lambda_resnet.html#{name}")
    assert page.locator(f"dt[id='{name}']").is_visible()
