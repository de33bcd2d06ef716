"""The pretrained weights that exist, as data. No Keras in here.

Nobody published weights for the networks of the paper. timm has them for three other lambda
networks and for three with attention in the same blocks; TensorFlow has those of ResNet-RS and
MobileNetV2, the paper's baselines, and timm those of ResNet-50.
"""

import re
from dataclasses import dataclass

IMAGENET = "imagenet"


@dataclass(frozen=True)
class PublishedWeights:
    """Weights of one network, in a repository of the Hugging Face hub or at an address.

    Attributes:
        repository: owner and name on the hub, or the `https://` address of a file.
        top1: ImageNet top-1 accuracy in percent, published by the authors of the weights.
        image_size: height and width, in pixels, of the images that they were evaluated on.
        crop_fraction: part of the shorter side of an image that the centre crop shows, resized
            by bicubic interpolation; `None` for all but 32 pixels, as for the paper's networks.
        filename: file in the repository, in safetensors format.
        revision: git revision of the repository.
        checksum: SHA-256 or MD5 of the file; `None` for the one that the hub records.
        license: SPDX identifier.
    """

    repository: str
    top1: float
    image_size: int
    crop_fraction: float | None = None
    filename: str = "model.safetensors"
    revision: str = "main"
    checksum: str | None = None
    license: str = "Apache-2.0"

    @property
    def page(self) -> str:
        """Address where people find the weights."""
        if self.repository.startswith("https://"):
            return self.repository
        return f"https://huggingface.co/{self.repository}"


def _resnet_rs(depth: int, image_size: int, top1: float, md5: str) -> PublishedWeights:
    """Accuracy by tensorflow/tpu, whose evaluation leaves out 32 pixels; MD5 by tf_keras."""
    folder = "https://storage.googleapis.com/tensorflow/keras-applications/resnet_rs"
    return PublishedWeights(
        f"{folder}/resnet-rs-{depth}-i{image_size}.h5",
        top1,
        image_size,
        checksum=md5,
    )


# By network, then by name. "imagenet" stands for the first name, if it is none itself.
# The hub's pages that could be read when this was written name a commit and a checksum for one.
PUBLISHED: dict[str, dict[str, PublishedWeights]] = {
    "lambda_resnet26t": {
        IMAGENET: PublishedWeights("timm/lambda_resnet26t.c1_in1k", 79.126, 256, 0.94)
    },
    "lambda_resnet26rpt_256": {
        IMAGENET: PublishedWeights("timm/lambda_resnet26rpt_256.c1_in1k", 78.960, 256, 0.94)
    },
    "lambda_resnet50ts": {
        IMAGENET: PublishedWeights(
            "timm/lambda_resnet50ts.a1h_in1k",
            81.184,
            256,
            0.95,
            revision="d1104e080d2725a19db5ec2ec58f589c490d674b",
            checksum="bcb80eaa77910c72c9c0ff9e83f99d550270fc23ab0ccac69d01e35cb269cdf8",
        )
    },
    "botnet26t_256": {IMAGENET: PublishedWeights("timm/botnet26t_256.c1_in1k", 79.256, 256, 0.95)},
    "halonet26t": {IMAGENET: PublishedWeights("timm/halonet26t.a1h_in1k", 79.134, 256, 0.95)},
    "halonet50ts": {IMAGENET: PublishedWeights("timm/halonet50ts.a1h_in1k", 81.640, 256, 0.94)},
    # "ResNet strikes back" (Wightman et al., 2021), procedure A1.
    "resnet50_pytorch": {IMAGENET: PublishedWeights("timm/resnet50.a1_in1k", 80.4, 224, 0.95)},
    # Keras states no checksum of this file, nor how images were cut for its accuracy: 224 of
    # 256 pixels is how they usually are.
    "mobilenet_v2": {
        IMAGENET: PublishedWeights(
            "https://storage.googleapis.com/tensorflow/keras-applications/mobilenet_v2/"
            "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224.h5",
            71.3,
            224,
            0.875,
        )
    },
    "resnet_rs50": {"imagenet-i160": _resnet_rs(50, 160, 78.8, "69d9d925319f00a8bdd4af23c04e4102")},
    "resnet_rs101": {
        "imagenet-i192": _resnet_rs(101, 192, 81.2, "eb285be29ab42cf4835ff20a5e3b5d23"),
        "imagenet-i160": _resnet_rs(101, 160, 80.3, "544b3434d00efc199d66e9058c7f3379"),
    },
    "resnet_rs152": {
        "imagenet-i256": _resnet_rs(152, 256, 83.0, "ba6271b99bdeb4e7a9b15c05964ef4ad"),
        "imagenet-i224": _resnet_rs(152, 224, 82.2, "31a46a92ab21b84193d0d71dd8c3d03b"),
        "imagenet-i192": _resnet_rs(152, 192, 82.0, "8d72a301ed8a6f11a47c4ced4396e338"),
    },
    "resnet_rs200": {
        "imagenet-i256": _resnet_rs(200, 256, 83.4, "a76930b741884e09ce90fa7450747d5f")
    },
    "resnet_rs270": {
        "imagenet-i256": _resnet_rs(270, 256, 83.8, "20d575825ba26176b03cb51012a367a8")
    },
    "resnet_rs350": {
        "imagenet-i320": _resnet_rs(350, 320, 84.2, "7ccb858cc738305e8ceb3c0140bee393"),
        "imagenet-i256": _resnet_rs(350, 256, 84.0, "f4a039dc3c421321b7fc240494574a68"),
    },
    "resnet_rs420": {
        "imagenet-i320": _resnet_rs(420, 320, 84.4, "ae0eb9bed39e64fc8d7e0db4018dc7e8")
    },
}


def is_published_name(weights: object) -> bool:
    """Whether this is `"imagenet"` or `"imagenet-..."`, and no file."""
    return isinstance(weights, str) and bool(re.fullmatch(r"imagenet(-\w+)?", weights))


def find_published(architecture: str, weights: str = IMAGENET) -> PublishedWeights:
    """The published weights of a network by their name.

    Raises:
        ValueError: if there are none, or none of that name.
    """
    known = PUBLISHED.get(architecture)
    if known is None:
        raise ValueError(
            f"no pretrained weights of {architecture!r} were ever published, only those of "
            f"{', '.join(PUBLISHED)}. Received: weights={weights!r}"
        )
    if weights == IMAGENET:
        return next(iter(known.values()))
    if weights not in known:
        names = dict.fromkeys((IMAGENET, *known))
        raise ValueError(
            f"expected weights of {architecture!r} to be one of {', '.join(names)}. "
            f"Received: weights={weights!r}"
        )
    return known[weights]
