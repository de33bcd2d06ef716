"""Networks with attention in every format."""

import pytest
from support.servables import assert_answers_like_keras, small_servable

from zoo.export.formats import FORMATS

MIXERS = ("global", "halo", "axial", "favor")
QUICK = {("global", "onnx"), ("halo", "litert")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mixer", "format_name"),
    [
        pytest.param(
            mixer,
            format_name,
            marks=[] if (mixer, format_name) in QUICK else pytest.mark.very_slow,
        )
        for mixer in MIXERS
        for format_name in FORMATS
    ],
)
def test_answers_like_keras(mixer, format_name, tmp_path):
    servable = small_servable("lambda_resnet14", mixer=mixer)
    FORMATS[format_name].write(servable, tmp_path / "1")
    assert_answers_like_keras(servable, format_name, tmp_path / "1")
