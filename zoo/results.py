"""Published accuracies of the zoo's networks, as data: every number of the paper's tables.

Top-1 on ImageNet in percent. Parameters and operations are counted in the built networks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

IMAGENET, PSEUDO_LABELS = "ImageNet", "ImageNet + pseudo-labels"
SECTION = "Section 5.3"


@dataclass(frozen=True)
class Result:
    """One published accuracy.

    Attributes:
        table: Where it stands in the LambdaNetworks paper (arXiv 2102.08602).
        network: Name of the network in the registry.
        image_size: Height and width of the images in pixels.
        top1: ImageNet top-1 accuracy in percent.
        parameters: Trainable parameters, counted.
        gflops: Floating-point operations for one image in 10^9, counted by the paper's conventions.
        arguments: Arguments of the constructor beside the registry's.
        seconds: Time of a training step of 1024 images on 8 TPUv3 cores (Table 19).
        images_per_second: In inference on 8 TPUv3 cores (Tables 4, 13 and 14).
        data: What it was trained on.
    """

    table: str
    network: str
    image_size: int
    top1: float
    parameters: int
    gflops: float
    arguments: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    images_per_second: int | None = None
    data: str = IMAGENET
