"""Images of the labeled and test sets, which must not be pseudo-labeled, and their hashes."""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np
import tensorflow as tf

from zoo.backend import cores
from zoo.data.crops import check_header, decode
from zoo.data.image_files import to_jpeg_or_png
from zoo.pseudo_label.inputs import find_ranges

BITS = 64
AT_ONCE = 256  # images whose hashes are computed together
SIDE = 32  # of the gray thumbnail
LOW = 8  # lowest frequencies of each axis: 64 bits
FLAT = 1.0  # amplitude of a frequency, in gray levels, that counts as none


def thumbnail(image: tf.Tensor) -> tf.Tensor:
    """Reduces a decoded image `(height, width, 3)` to gray `(32, 32)` in [0, 255], in a graph too.

    The thumbnail shows the whole image, even if the network gets a crop.
    """
    gray = tf.tensordot(tf.cast(image, tf.float32), [0.299, 0.587, 0.114], 1)[..., None]
    return tf.image.resize(gray, (SIDE, SIDE), antialias=True)[..., 0]


def perceptual_hashes(thumbnails: np.ndarray) -> np.ndarray:
    """Computes the 64-bit DCT hashes of gray thumbnails `(n, 32, 32)`: int64 `(n,)`.

    A bit is set if the amplitude of its frequency is above the median of the 8 x 8 lowest. So
    re-encoding, resizing and brightness change few bits.
    """
    from scipy.fft import dctn

    pixels = np.asarray(thumbnails, "float64")
    amplitudes: Any = dctn(pixels, axes=(1, 2), norm="ortho")
    amplitudes = amplitudes[:, :LOW, :LOW].reshape(-1, LOW * LOW)  # (n, 64)
    # Rounding errors of images without some frequencies would set bits at random.
    amplitudes = np.where(np.abs(amplitudes) < FLAT, 0, amplitudes)
    bits = amplitudes > np.median(amplitudes, axis=1, keepdims=True)
    return np.packbits(bits, axis=1).view(">i8")[:, 0].astype("int64")


@dataclass(frozen=True)
class Excluded:
    """Digests `(n, 32)` and perceptual hashes `(n,)` of images.

    Images whose hashes differ in at most `distance` bits count as the same.
    """

    sha256: np.ndarray
    perceptual_hash: np.ndarray
    distance: int

    @cached_property
    def _digests(self) -> set[bytes]:
        return set(map(bytes, self.sha256))

    @cached_property
    def _bands(self) -> list[tuple[np.uint64, np.ndarray, np.ndarray]]:
        """Returns for each band its bit mask, the sorted masked hashes, and their order."""
        bounds = np.linspace(0, BITS, self.distance + 2).astype(int).tolist()
        masks = [np.uint64(2**high - 2**low) for low, high in pairwise(bounds)]
        bands = [self.perceptual_hash.view("uint64") & mask for mask in masks]
        return [(m, np.sort(b), np.argsort(b)) for m, b in zip(masks, bands, strict=True)]

    def by_digest(self, sha256: np.ndarray) -> np.ndarray:
        """Returns a bool array `(n,)`: which of the digests `(n, 32)` are of these images."""
        return np.array([bytes(digest) in self._digests for digest in sha256], bool)

    def by_hash(self, hashes: np.ndarray) -> np.ndarray:
        """Returns a bool array `(n,)`: which of the hashes `(n,)` are of these images.

        Hashes that differ in at most `distance` bits are equal in one of `distance + 1` bands.
        """
        near = np.zeros(len(hashes), bool)
        for mask, known, order in self._bands:
            wanted = hashes.view("uint64") & mask
            begin, end = (np.searchsorted(known, wanted, side) for side in ("left", "right"))
            pairs = end - begin  # known images in the same band
            index = np.repeat(np.arange(len(hashes)), pairs)
            first = np.repeat(begin - (pairs.cumsum() - pairs), pairs)
            other = self.perceptual_hash[order[first + np.arange(len(index))]]
            different = np.bitwise_count((hashes[index] ^ other).view("uint64"))
            near[index[different <= self.distance]] = True
        return near


def read_excluded(patterns: Sequence[str], folder: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns digests and hashes of the images that patterns name, as `--input` of `label` does."""
    from rich.progress import track

    try:
        ranges = [part for pattern in patterns for part in find_ranges(pattern, 0, folder, False)]
        tracked = track(ranges, "Reading images to leave out", transient=True)
        files = (content for part in tracked for content, _ in part.read())
        digests, hashes = [], [np.zeros(0, "int64")]
        with ThreadPoolExecutor(cores()) as pool:
            while batch := list(islice(files, AT_ONCE)):
                digests += [hashlib.sha256(content).digest() for content in batch]
                if thumbnails := list(chain(*pool.map(_thumbnails, batch))):
                    hashes.append(perceptual_hashes(np.stack(thumbnails)))
    except ValueError as error:  # messages begin with `input`, the setting of `label`
        raise ValueError(f"exclude: {str(error).removeprefix('input: ')}") from None
    sha256 = np.frombuffer(b"".join(digests), "uint8").reshape(-1, 32)
    return sha256, np.concatenate(hashes)


def _thumbnails(content: bytes) -> list[np.ndarray]:
    """Returns a list of one thumbnail; empty for unreadable files, excluded by digest only."""
    try:
        file = to_jpeg_or_png(content)
        check_header(file)
        return [thumbnail(decode(file)).numpy()]
    except (ValueError, tf.errors.OpError):
        return []
