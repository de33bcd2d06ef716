"""Perceptual hashes: near for copies of an image, far for others."""

import hashlib
import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from sklearn.datasets import load_sample_images

from zoo.data.crops import decode
from zoo.pseudo_label import exclude

PARTS = [
    Image.fromarray(image[rows : rows + 200, columns : columns + 300])
    for image in load_sample_images().images
    for rows in (0, 200)
    for columns in (0, 300)
]
NEAR, FAR = 6, 16  # bits; images that have nothing in common differ in 32 on average


def hashes(images, form="PNG", **options) -> np.ndarray:
    """Hashes of images that are saved as files, and read again."""
    small = []
    for image in images:
        file = io.BytesIO()
        image.save(file, form, **options)
        small.append(exclude.thumbnail(decode(file.getvalue())))
    return exclude.perceptual_hashes(np.stack(small))


def different(one, other) -> np.ndarray:
    return np.bitwise_count((one ^ other).view("uint64"))


@pytest.fixture(scope="module")
def originals():
    return hashes(PARTS)


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (lambda image: image, {"form": "JPEG", "quality": 95}),
        (lambda image: image, {"form": "JPEG", "quality": 50}),
        (lambda image: image.resize((150, 100)), {}),
        (lambda image: image.point(lambda value: value * 0.8 + 40), {}),
        (lambda image: image.convert("L"), {}),
    ],
    ids=["quality 95", "quality 50", "smaller", "brighter", "gray"],
)
def test_changed_copy_is_near(originals, change, options):
    assert different(originals, hashes(map(change, PARTS), **options)).max() <= NEAR


@pytest.mark.parametrize("size", [(97, 61), (600, 400)])
def test_resized_copy_differs_in_3_bits_at_most(size):
    """As many as `select` takes for the same image."""
    noise = np.random.default_rng(0).normal(0, 60, (len(PARTS), 200, 300, 1))
    pixels = np.clip(np.stack(PARTS) + noise, 0, 255).astype("uint8")
    grainy = [Image.fromarray(image) for image in pixels]
    assert different(hashes(grainy), hashes(one.resize(size) for one in grainy)).max() <= 3


def test_other_images_are_far(originals):
    distances = different(originals[:, None], originals[None])
    assert (distances + 64 * np.eye(len(PARTS)) >= FAR).all()
    assert np.unpackbits(originals.view("uint8")).mean() == 0.5  # above the median


def test_hashes_by_hand():
    """Waves along one axis set the bit of their frequency, the highest bit being the mean."""
    places = np.pi * (2 * np.arange(32) + 1) / 64
    waves = [100 + 50 * np.cos(places * f) * np.ones((32, 1)) for f in (1, 7)]
    waves += [waves[0].T, np.full((32, 32), 130.1)]  # even: rounding errors set no bits
    # Just below the amplitude 1 of an orthonormal transform, which counts as none, and above it.
    waves += [100 + gray * np.cos(places) * np.ones((32, 1)) for gray in (0.04, 0.05)]
    expected = [2**63 + 2**62, 2**63 + 2**56, 2**63 + 2**55, 2**63, 2**63, 2**63 + 2**62]
    found = exclude.perceptual_hashes(np.stack(waves))
    assert found.dtype == np.int64
    assert found.view("uint64").tolist() == expected
    assert found.tolist() == [exclude.perceptual_hashes(one[None])[0] for one in waves]


def test_thumbnail_is_gray_in_a_graph_too():
    red = tf.constant(np.full((40, 60, 3), [255, 10, 0], "uint8"))
    expected = np.full((32, 32), 255 * 0.299 + 10 * 0.587)
    np.testing.assert_allclose(tf.function(exclude.thumbnail)(red), expected, rtol=1e-5)


@pytest.mark.parametrize("distance", [0, 1, 3, 6])
def test_hash_with_a_bit_flipped_in_every_band_but_one_is_near(distance):
    known = np.random.default_rng(0).integers(-(2**63), 2**63, 5, "int64")
    excluded = exclude.Excluded(np.zeros((0, 32), "uint8"), known, distance)
    bits = np.linspace(0, 64, distance + 2).astype(int)[:-1]  # the lowest one of each band
    flips = np.array([sum(2 ** int(bit) for bit in np.delete(bits, i)) for i in range(len(bits))])
    near = (known[3:4].view("uint64") ^ flips.astype("uint64")).view("int64")
    assert excluded.by_hash(near).all()
    assert not excluded.by_hash(near ^ np.int64(2**62 + 2**61)).any()


@pytest.mark.parametrize("distance", [0, 1, 3, 6])
def test_hashes_near_any_of_many_in_the_same_bands_are_near(distance):
    rng, bits = np.random.default_rng(0), 2 ** (5 * np.arange(12, dtype="int64"))
    known, found = (rng.integers(0, 2, (n, 12)) @ bits for n in (8, 3000))
    expected = (np.bitwise_count(found[:, None] ^ known) <= distance).any(1)
    assert 0 < expected.sum() < len(expected) or distance == 6
    excluded = exclude.Excluded(np.zeros((0, 32), "uint8"), known, distance)
    assert excluded.by_hash(found).tolist() == expected.tolist()


def test_images_to_leave_out(tmp_path):
    """More than are hashed at once; digests of unreadable ones count, too."""
    image = Image.fromarray(np.arange(192, dtype="uint8").reshape(8, 8, 3))
    for number in range(exclude.AT_ONCE + 2):
        image.save(tmp_path / f"{number:04}.png")
    (tmp_path / "0001.png").write_bytes(b"no image")
    sha256, found = exclude.read_excluded([f"{tmp_path}/*"], None)
    assert sha256.shape == (exclude.AT_ONCE + 2, 32)
    assert bytes(sha256[1]) == hashlib.sha256(b"no image").digest()
    assert found.tolist() == hashes([image]).tolist() * (exclude.AT_ONCE + 1)
    excluded = exclude.Excluded(sha256, found, 0)
    assert excluded.by_digest(np.stack([sha256[1], sha256[2] ^ 1])).tolist() == [True, False]
    assert [len(part) for part in exclude.read_excluded([], None)] == [0, 0]
