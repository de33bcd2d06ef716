"""Perceptual hashes of images, which survive re-encoding."""

import numpy as np
import tensorflow as tf

SIDE = 32  # of the gray thumbnail
LOW = 8  # lowest frequencies of each axis: 64 bits
FLAT = 1.0  # amplitude of a frequency, in gray levels, that counts as none


def thumbnail(image: tf.Tensor) -> tf.Tensor:
    """Reduces a decoded image `(height, width, 3)` to gray `(32, 32)` in [0, 255], in a graph too.

    The whole image counts, whatever the crop that the network gets.
    """
    gray = tf.tensordot(tf.cast(image, tf.float32), [0.299, 0.587, 0.114], 1)[..., None]
    return tf.image.resize(gray, (SIDE, SIDE), antialias=True)[..., 0]


def perceptual_hashes(thumbnails: np.ndarray) -> np.ndarray:
    """Computes the 64-bit DCT hashes of gray thumbnails `(n, 32, 32)`: int64 `(n,)`.

    A bit is set if the amplitude of its frequency is above the median of the 8 x 8 lowest. So
    re-encoding, resizing and brightness change few bits.
    """
    u, i = np.arange(LOW)[:, None], np.arange(SIDE)
    cosines = np.sqrt(2 / SIDE) * np.cos(np.pi * u * (2 * i + 1) / (2 * SIDE))  # DCT-II, (8, 32)
    cosines[0] /= np.sqrt(2)
    pixels = np.asarray(thumbnails, "float64")
    amplitudes = np.einsum("ui,nij,vj->nuv", cosines, pixels, cosines, optimize=True)
    amplitudes = amplitudes.reshape(-1, LOW * LOW)  # (n, 64)
    # Rounding errors of images without some frequencies would set bits at random.
    amplitudes = np.where(np.abs(amplitudes) < FLAT, 0, amplitudes)
    bits = amplitudes > np.median(amplitudes, axis=1, keepdims=True)
    return np.packbits(bits, axis=1).view(">i8")[:, 0].astype("int64")
