"""The command that draws attention maps beside lambdas."""

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support import commands

from lambda_keras.applications import preprocess_input
from zoo import run_folder
from zoo.inference.lambda_maps import attention_maps, lambda_maps, lambdas
from zoo.inference.source.run import Run
from zoo.maps import __main__ as maps
from zoo.plots import lambda_maps as plots
from zoo.registry import create_model

FIXTURES = Path(__file__).parents[1] / "fixtures"
LAMBDA_RUN, BOOT = FIXTURES / "classifier_run", FIXTURES / "fashion_mnist" / "00_9.png"
fail = partial(commands.fail, maps.main)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, str]:
    """A run of lambda layers, one of attention, and one of convolutions."""
    folders = {"lambda": str(LAMBDA_RUN)}
    for name, arguments in {"global": {"mixer": "global"}, "none": {"placement": "CCCC"}}.items():
        folder = tmp_path_factory.mktemp("runs") / name
        shutil.copytree(LAMBDA_RUN, folder)
        sizes = {"input_shape": (16, 16, 3), "classes": 10, "filters": 8}
        create_model("lambda_resnet14", **sizes, **arguments).save(folder / run_folder.MODEL)
        folders[name] = str(folder)
    return folders


@pytest.fixture
def drawn(monkeypatch) -> list:
    """What is drawn, in the order in which it is."""
    given, draw = [], plots.plot_rows
    monkeypatch.setattr(plots, "plot_rows", lambda *one: given.append(one) or draw(*one))
    return given


def test_attention_maps_and_lambdas_of_two_runs_stand_in_one_picture(
    runs, photo, figures, tmp_path, drawn, capsys
):
    output = tmp_path / "maps.png"
    chosen = ["--run", runs["lambda"], "--beside", runs["global"], "--queries", "0:0,1:1"]
    maps.main([photo, *chosen, "--output", str(output)])
    assert f"wrote {output}" in capsys.readouterr().out
    titles = [part.get_suptitle() for part in figures[0].subfigs]
    assert [title.split(" of")[0].split(",")[0] for title in titles] == [
        "Queries in the image",
        "Lambdas",
        "What these lambdas weigh",
        "Attention maps",
    ]
    last = "c5_block1_2_attention"
    assert "c5_block1_2_lambda" in titles[1]
    assert last in titles[3]
    classifier = Run(Path(runs["global"])).load()
    image = preprocess_input(classifier.view(photo))
    expected = attention_maps(classifier.model, last, image, 1, 1)
    np.testing.assert_allclose(drawn[0][3][-1].pictures[1], expected.mean(0), rtol=1e-5)
    assert all(len(part.axes) in (2, 3) for part in figures[0].subfigs)  # and a color bar
    maps.main([photo, *chosen[:2], "--queries", "1:1", "--output", str(output)])
    assert all(len(part.axes) in (1, 2) for part in figures[1].subfigs)
    with Image.open(output) as picture:
        assert len(np.unique(np.asarray(picture))) > 50


def test_weights_of_lambdas_are_the_mean_of_heads_at_three_queries(runs, photo, tmp_path, drawn):
    """Content and position together, by default on the diagonal."""
    maps.main([photo, "--run", runs["lambda"], "--output", str(tmp_path / "maps.png")])
    ((_, queries, grid, (of_lambdas, of_weights), _),) = drawn
    assert (queries, grid) == ([(1, 1), (2, 2), (3, 3)], (4, 4))
    classifier, last = Run(Path(runs["lambda"])).load(), "c5_block1_2_lambda"
    image = preprocess_input(classifier.view(photo))
    pictures = (of_lambdas.pictures, of_weights.pictures)
    for query, matrix, weights in zip(queries, *pictures, strict=True):
        found = lambda_maps(classifier.model, last, image, *query)
        expected = (found.content + found.position).mean(0)
        np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=1e-6)
        by_group = lambdas(classifier.model, last, image, *query)
        np.testing.assert_allclose(matrix, np.concatenate(by_group), rtol=1e-4, atol=1e-6)


def test_maps_of_published_weights(tmp_path):
    output = tmp_path / "maps.png"
    named = ["--model", "lambda_resnet14", "--weights", "fashion_mnist"]
    maps.main([str(BOOT), *named, "--output", str(output)])
    with Image.open(output) as picture:
        assert len(np.unique(np.asarray(picture))) > 50


def test_bad_input_is_one_error(runs, photo, tmp_path, capsys):
    output = tmp_path / "maps.png"

    def error(*arguments: str) -> str:
        return fail(capsys, *arguments, "--output", str(output))

    looking = ["--run", runs["lambda"]]
    assert "expected layers of lambdas" in error(photo, "--run", runs["none"])
    assert "expected one image" in error(photo, photo, *looking)
    assert "queries" in error(photo, *looking, "--queries", "1,2")
    assert "expected a position in the grid" in error(photo, *looking, "--queries", "99:0")
    assert str(tmp_path / "none") in error(photo, "--run", str(tmp_path / "none"))
    other = ["--model", "lambda_resnet14", "--weights", "fashion_mnist"]
    assert "expected equal image and map sizes" in error(photo, *other, "--beside", runs["lambda"])
    assert not output.exists()
