"""The most confident images of each class, found with histograms of bounded size.

Every image has a rank in its class: by descending score, then by its digest, then by its place
among the shards. No machine sees all ranks. Each shard counts, for each class, the values of the
next bits of its ranks; the sums over the shards say in which of them the cut lies (radix select).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

BITS = 8  # of a rank, that one pass over the shards finds
VALUES = 2**BITS
WORDS, WORD = 2, 64  # a rank is two words of so many bits: score and digest, then place


class Ranks(NamedTuple):
    """Classes of images, `(n,)`, and their ranks, `(n, 2)`, in uint64: the lower, the better."""

    label: np.ndarray
    words: np.ndarray


def ranks(label: np.ndarray, score: np.ndarray, sha256: np.ndarray, place: np.ndarray) -> Ranks:
    """Returns the ranks of images with a score in [0, 1], digest `(n, 32)` and unique place."""
    bits = np.ascontiguousarray(score, "float32").view("uint32")  # ascending as the scores
    digest = np.ascontiguousarray(sha256[:, :4]).view(">u4").reshape(-1)
    first = (~bits).astype("uint64") << np.uint64(32) | digest.astype("uint64")
    return Ranks(label, np.stack([first, place.astype("uint64")], -1))


class Cut(NamedTuple):
    """For each class, the last rank that counts, `(classes, 2)`, and how many images do."""

    words: np.ndarray
    count: np.ndarray

    def holds(self, of: Ranks) -> np.ndarray:
        """Returns which of the images count."""
        last = self.words[of.label]
        first, second = of.words[:, 0], of.words[:, 1]
        before = (first < last[:, 0]) | ((first == last[:, 0]) & (second <= last[:, 1]))
        return before & (self.count[of.label] > 0)


class Partial(NamedTuple):
    """A cut of which words before `word`, and bits of it above `shift`, are known."""

    words: np.ndarray
    word: int
    shift: int

    def histogram(self, of: Ranks) -> np.ndarray:
        """Counts the images at the cut so far by the next bits, `(classes, VALUES)`."""
        known = self.words[of.label]
        at_cut = (of.words[:, : self.word] == known[:, : self.word]).all(-1)
        word = of.words[:, self.word]
        if self.shift + BITS < WORD:
            above = np.uint64(self.shift + BITS)
            at_cut &= word >> above == known[:, self.word] >> above
        bits = (word[at_cut] >> np.uint64(self.shift) & np.uint64(VALUES - 1)).astype("int64")
        classes = len(self.words)
        place = of.label[at_cut].astype("int64") * VALUES + bits
        return np.bincount(place, minlength=classes * VALUES).reshape(classes, VALUES)


def find_cut(count: Sequence[int] | np.ndarray, total: Callable[[Partial], np.ndarray]) -> Cut:
    """Finds the ranks that exactly `count` images of each class have or are better than.

    No class has fewer images. `total` returns the sum over all shards of `Partial.histogram`.
    """
    count = np.asarray(count, "int64")
    words = np.zeros((len(count), WORDS), "uint64")
    if not count.any():
        return Cut(words, count)
    left, row, at_cut = count.copy(), np.arange(len(count)), np.zeros_like(count)
    for word in range(WORDS):
        for shift in range(WORD - BITS, -1, -BITS):
            histogram = total(Partial(words, word, shift))
            upto = histogram.cumsum(-1)  # (classes, values)
            value = (upto >= left[:, None]).argmax(-1)
            at_cut = histogram[row, value]
            left = left - (upto[row, value] - at_cut)
            words[:, word] |= value.astype("uint64") << np.uint64(shift)
        if (at_cut == left)[count > 0].all():  # nobody else has this word
            words[:, word + 1 :] = np.iinfo("uint64").max
            break
    return Cut(words, count)
