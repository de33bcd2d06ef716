"""The committed network of the site's first page."""

import re
from pathlib import Path

import numpy as np
import pytest
from support import needs

from lambda_keras.applications.preprocessing import Preprocessing
from zoo.config import DataConfig
from zoo.data.crops import resize_center
from zoo.data.sources.digits import Digits

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.one_backend
def test_it_is_as_good_as_the_page_says():
    session = needs.package("onnxruntime").InferenceSession(DOCS / "_static" / "digits.onnx")
    _, (digits, labels) = Digits(DataConfig()).arrays()
    images = np.stack([resize_center(one, Preprocessing(32, 1.0, "bilinear")) for one in digits])
    (probabilities,) = session.run(["probabilities"], {"images": images})
    accuracy = f"{100 * (probabilities.argmax(-1) == labels).mean():.1f} %"
    page = " ".join((DOCS / "index.md").read_text().split())
    assert f"{accuracy} of {len(labels)} held-out digits" in page
    layer = re.search(r'LAYER = "(\w+)"', (DOCS / "_static" / "draw.js").read_text())[1]
    maps = {f"{layer}_{kind}": [8, 8, 4, 8, 8] for kind in ("content", "position")}
    shapes = {output.name: output.shape[1:] for output in session.get_outputs()}
    assert shapes == {"probabilities": [10], **maps}
