"""The table of published weights, compared with a second copy: nothing else can notice a typo."""

import pytest
from support import needs

from lambda_keras.models.specs import ROWS

pytestmark = pytest.mark.one_backend

# Names: top-1, size and crop by timm's and Keras' pages; tf_keras has the checksums of ResNet-RS.
PAGES = {
    ("lambda_resnet26t", "imagenet"): (79.126, 256, 0.94),
    ("lambda_resnet26rpt_256", "imagenet"): (78.96, 256, 0.94),
    ("lambda_resnet50ts", "imagenet"): (81.184, 256, 0.95),
    ("botnet26t_256", "imagenet"): (79.256, 256, 0.95),
    ("halonet26t", "imagenet"): (79.134, 256, 0.95),
    ("halonet50ts", "imagenet"): (81.64, 256, 0.94),
    ("resnet50_pytorch", "imagenet"): (80.4, 224, 0.95),
    ("mobilenet_v2", "imagenet"): (71.3, 224, 0.875),
    ("resnet_rs50", "imagenet-i160"): (78.8, 160, None),
    ("resnet_rs101", "imagenet-i192"): (81.2, 192, None),
    ("resnet_rs101", "imagenet-i160"): (80.3, 160, None),
    ("resnet_rs152", "imagenet-i256"): (83.0, 256, None),
    ("resnet_rs152", "imagenet-i224"): (82.2, 224, None),
    ("resnet_rs152", "imagenet-i192"): (82.0, 192, None),
    ("resnet_rs200", "imagenet-i256"): (83.4, 256, None),
    ("resnet_rs270", "imagenet-i256"): (83.8, 256, None),
    ("resnet_rs350", "imagenet-i320"): (84.2, 320, None),
    ("resnet_rs350", "imagenet-i256"): (84.0, 256, None),
    ("resnet_rs420", "imagenet-i320"): (84.4, 320, None),
}


def test_accuracy_size_and_crop():
    assert {
        (row.name, name): (one.top1, one.image_size, one.crop_fraction)
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
