"""The table of published weights, compared with a second copy: nothing else can notice a typo."""

from pathlib import Path

import pytest
import yaml
from support import needs

from lambda_keras.models.specs import ROWS

pytestmark = pytest.mark.one_backend

PAGES = yaml.safe_load(Path(__file__).with_name("published.yaml").read_text())


def test_accuracy_size_and_crop():
    assert {
        f"{row.name}, {name}": [one.top1, one.image_size, one.crop_fraction]
        for row in ROWS
        for name, one in row.weights.items()
        if not one.is_packaged
    } == PAGES


@pytest.mark.filterwarnings("ignore::DeprecationWarning:tf_keras")
def test_checksums_of_resnet_rs():
    hashes = needs.package("tf_keras.src.applications.resnet_rs").WEIGHT_HASHES
    compared = [
        (one.checksum, hashes[one.repository.rpartition("/")[2]])
        for row in ROWS
        for one in row.weights.values()
        if row.name.startswith("resnet_rs")
    ]
    assert len(compared) == 11
    assert [one for one, _ in compared] == [other for _, other in compared]
