"""Images that must not be pseudo-labelled: those of the labelled and the test sets."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import tensorflow as tf

from zoo.data.crops import check_header, decode
from zoo.data.image_files import to_jpeg_or_png
from zoo.pseudo_label.hashes import digest, hamming, perceptual_hashes, thumbnail
from zoo.pseudo_label.inputs import find_ranges

BITS = 64
AT_ONCE = 256  # images whose hashes are computed together


@dataclass(frozen=True)
class Excluded:
    """Digests `(n, 32)` and perceptual hashes `(n,)` of images."""

    sha256: np.ndarray
    perceptual_hash: np.ndarray

    def by_digest(self, sha256: np.ndarray) -> np.ndarray:
        """Returns which files, by their digests `(n, 32)`, are among these images."""
        known = set(map(bytes, self.sha256))
        return np.array([bytes(one) in known for one in sha256], bool)

    def by_hash(self, hashes: np.ndarray, distance: int) -> np.ndarray:
        """Returns which hashes differ from one of these images in at most `distance` bits.

        Two hashes of 64 bits that differ in so few are equal in one of `distance + 1` bands.
        """
        near = np.zeros(len(hashes), bool)
        if not len(self.perceptual_hash):
            return near
        bounds = np.linspace(0, BITS, distance + 2).astype(int).tolist()
        for low, high in pairwise(bounds):
            mask = np.uint64(2**BITS - 1 >> BITS - (high - low) << low)
            known, wanted = (each.view("uint64") & mask for each in (self.perceptual_hash, hashes))
            order = np.argsort(known)
            begin, end = (np.searchsorted(known[order], wanted, side) for side in ("left", "right"))
            pairs = end - begin  # known images in the same band
            one = np.repeat(np.arange(len(hashes)), pairs)
            first = np.repeat(begin - (pairs.cumsum() - pairs), pairs)
            other = order[first + np.arange(len(one))]
            same = hamming(hashes[one], self.perceptual_hash[other]) <= distance
            near[one[same]] = True
        return near


def read_excluded(patterns: Sequence[str], folder: Any) -> Excluded:
    """Reads the images that patterns name, as `--input` of `label` does."""
    from rich.progress import track

    digests, hashes, waiting = [], [], []

    def add() -> None:
        with ThreadPoolExecutor() as pool:
            found = [small for small in pool.map(_thumbnail, waiting) if small is not None]
        hashes.append(perceptual_hashes(np.stack(found)) if found else np.zeros(0, "int64"))
        waiting.clear()

    ranges = [part for pattern in patterns for part in find_ranges(pattern, 0, folder, False)]
    for part in track(ranges, "Reading images to leave out", transient=True):
        for content, _ in part.read():
            digests.append(digest(content))
            waiting.append(content)
            if len(waiting) == AT_ONCE:
                add()
    add()
    sha256 = np.frombuffer(b"".join(digests), "uint8").reshape(-1, 32)
    return Excluded(sha256, np.concatenate(hashes))


def _thumbnail(content: bytes) -> np.ndarray | None:
    """Returns the thumbnail of an image file, None if it is unreadable."""
    try:
        file = to_jpeg_or_png(content)
        check_header(file)
        return thumbnail(decode(file)).numpy()
    except (ValueError, tf.errors.OpError):  # its digest counts
        return None
