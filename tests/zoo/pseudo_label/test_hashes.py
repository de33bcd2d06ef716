"""Perceptual hashes: near for copies of an image, far for others."""

import hashlib
import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from sklearn.datasets import load_sample_images

from zoo.data.crops import decode
from zoo.pseudo_label.exclude import Excluded
from zoo.pseudo_label.hashes import digest, hamming, perceptual_hashes, thumbnail

PARTS = [
    image[rows : rows + 200, columns : columns + 300]
    for image in load_sample_images().images
    for rows in (0, 200)
    for columns in (0, 300)
]
NEAR, FAR = 6, 16  # bits; images that have nothing in common differ in 32 on average


def encode(pixels: np.ndarray, form: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form, **options)
    return file.getvalue()


def hashes(files: list[bytes]) -> np.ndarray:
    return perceptual_hashes(np.stack([thumbnail(decode(file)) for file in files]))


@pytest.mark.parametrize("quality", [95, 75, 50])
def test_jpeg_of_any_quality_is_near(quality):
    original = hashes([encode(part) for part in PARTS])
    encoded = hashes([encode(part, "JPEG", quality=quality) for part in PARTS])
    assert hamming(original, encoded).max() <= NEAR


@pytest.mark.parametrize("change", ["smaller", "brighter", "grey"])
def test_changed_image_is_near(change):
    original = hashes([encode(part) for part in PARTS])
    changed = {
        "smaller": lambda image: image.resize((150, 100)),
        "brighter": lambda image: image.point(lambda value: value * 0.8 + 40),
        "grey": lambda image: image.convert("L"),
    }[change]
    files = [encode(np.asarray(changed(Image.fromarray(part)))) for part in PARTS]
    assert hamming(original, hashes(files)).max() <= NEAR


@pytest.mark.parametrize("size", [(225, 150), (97, 61), (600, 400)])
def test_resized_copy_differs_in_3_bits_at_most(size):
    """As many as `select` takes for the same image."""
    noise = np.random.default_rng(0).normal(0, 60, (len(PARTS), 200, 300, 1))
    grainy = np.clip(np.stack(PARTS) + noise, 0, 255).astype("uint8")
    resized = [np.asarray(Image.fromarray(image).resize(size)) for image in grainy]
    found = hashes([encode(image) for image in grainy]), hashes([encode(one) for one in resized])
    assert hamming(*found).max() <= 3


@pytest.mark.parametrize("distance", [0, 1, 3, 6])
def test_hash_with_a_bit_flipped_in_every_band_but_one_is_near(distance):
    known = np.random.default_rng(0).integers(-(2**63), 2**63, 1, "int64")
    excluded = Excluded(np.zeros((0, 32), "uint8"), known, distance)
    bits = np.linspace(0, 64, distance + 2).astype(int)[:-1]  # the lowest one of each band
    flips = np.array([sum(2 ** int(bit) for bit in np.delete(bits, i)) for i in range(len(bits))])
    near = (known.view("uint64") ^ flips.astype("uint64")).view("int64")
    assert excluded.by_hash(near).all()
    assert not excluded.by_hash(near ^ np.int64(2**62 + 2**61)).any()


def test_other_images_are_far():
    found = hashes([encode(part) for part in PARTS])
    distances = hamming(found[:, None], found[None])
    assert (distances.diagonal() == 0).all()
    assert (distances + 64 * np.eye(len(PARTS)) >= FAR).all()


def test_hash_of_one_image_does_not_depend_on_the_batch():
    small = np.random.default_rng(0).uniform(0, 255, (5, 32, 32)).astype("float32")
    together = perceptual_hashes(small)
    assert together.dtype == np.int64
    assert together.tolist() == [perceptual_hashes(image[None])[0] for image in small]
    assert np.unpackbits(together.view("uint8")).mean() == 0.5  # above the median


def test_rounding_errors_of_an_even_image_set_no_bits():
    even = np.full((3, 32, 32), [[[7.0]], [[130.1]], [[254.9]]])
    assert len(set(perceptual_hashes(even).tolist())) == 1


@pytest.mark.parametrize(
    ("one", "other", "expected"), [(0, 0, 0), (0, -1, 64), (1, 2, 2), (-(2**63), 0, 1)]
)
def test_hamming_counts_bits_of_signed_integers(one, other, expected):
    assert hamming(np.array(one), np.array(other)) == expected


def test_digest_is_of_the_file():
    assert digest(b"image") == hashlib.sha256(b"image").digest()


def test_thumbnail_is_grey_in_a_graph_too():
    graph = tf.function(thumbnail)
    red = tf.constant(np.full((40, 60, 3), [255, 0, 0], "uint8"))
    np.testing.assert_allclose(graph(red), np.full((32, 32), 255 * 0.299), rtol=1e-5)
