"""The pretrained weights that exist, as data. No Keras in here.

Nobody published weights for the networks of the paper; timm has them for three others.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedWeights:
    """Weights of one network on the Hugging Face hub.

    Attributes:
        repository: owner and name on the hub.
        filename: file in the repository, in safetensors format.
        revision: git revision of the repository.
        sha256: checksum of the file, or `None` for the one that the hub records.
        top1: ImageNet top-1 accuracy in percent, published by the authors of the weights.
        image_size: height and width, in pixels, of the images that they were evaluated on.
        crop_fraction: part of the shorter side of a photograph that the centre crop shows.
        license: SPDX identifier.
    """

    repository: str
    top1: float
    image_size: int
    crop_fraction: float
    filename: str = "model.safetensors"
    revision: str = "main"
    sha256: str | None = None
    license: str = "Apache-2.0"


# The hub's pages that could be read when this was written name a commit and a checksum for one.
PUBLISHED = {
    "lambda_resnet26t": PublishedWeights("timm/lambda_resnet26t.c1_in1k", 79.126, 256, 0.94),
    "lambda_resnet26rpt_256": PublishedWeights(
        "timm/lambda_resnet26rpt_256.c1_in1k", 78.960, 256, 0.94
    ),
    "lambda_resnet50ts": PublishedWeights(
        "timm/lambda_resnet50ts.a1h_in1k",
        81.184,
        256,
        0.95,
        revision="d1104e080d2725a19db5ec2ec58f589c490d674b",
        sha256="bcb80eaa77910c72c9c0ff9e83f99d550270fc23ab0ccac69d01e35cb269cdf8",
    ),
}
