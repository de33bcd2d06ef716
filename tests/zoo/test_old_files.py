"""Runs, published folders and exports of November 2026, before sources of a network were objects.

`tests/fixtures/outputs.json` has their outputs for the same images, by the code that wrote them.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from zoo.api import load_classifier
from zoo.export.formats import FORMATS
from zoo.inference.classifier import predict

FIXTURES = Path(__file__).parents[1] / "fixtures"
OUTPUTS = json.loads((FIXTURES / "outputs.json").read_text())
SIZE = 16  # of the classifier's images


def images(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (*shape, 3)).astype("uint8")


@pytest.mark.parametrize("name", ["classifier_run", "published_classifier"])
def test_classifier(name):
    classifier = load_classifier(FIXTURES / name)
    found = classifier(list(images(3, 40, 80)), top=10)
    probabilities = [[score.probability for score in sorted(scores)] for scores in found]
    np.testing.assert_allclose(probabilities, OUTPUTS["probabilities"], atol=1e-5)


@pytest.mark.needs("onnxruntime")
@pytest.mark.parametrize("format_name", ["saved_model", "onnx"])
def test_export(format_name):
    runtime = FORMATS[format_name].runtime(FIXTURES / "exports" / format_name)
    inputs = images(2, SIZE, SIZE).astype("float32")
    found = runtime.run("serving_default", {"images": inputs})["probabilities"]
    model = load_classifier(FIXTURES / "classifier_run").model
    np.testing.assert_allclose(found, predict(model, inputs), atol=1e-5)
