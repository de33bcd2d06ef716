"""Decoding the part of an image that is looked at."""

import io
import re
from contextlib import suppress

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps
from support.record_files import encoded, jpeg

from lambda_keras.applications.preprocessing import Preprocessing
from zoo.data.crops import (
    attempt,
    check_content,
    decode,
    decode_center,
    decode_window,
    is_deep_png,
    orientation,
    resize_center,
    resize_window,
)

UPRIGHT = (  # by EXIF orientation from 1: how a camera stores an upright picture
    lambda image: image,
    ImageOps.mirror,
    lambda image: image.transpose(Image.Transpose.ROTATE_180),
    ImageOps.flip,
    lambda image: image.transpose(Image.Transpose.TRANSPOSE),
    lambda image: image.transpose(Image.Transpose.ROTATE_90),
    lambda image: image.transpose(Image.Transpose.TRANSVERSE),
    lambda image: image.transpose(Image.Transpose.ROTATE_270),
)
PICTURE = Image.open(io.BytesIO(jpeg(70, (51, 37))))


def exif_of(orientation, endian):
    exif = Image.Exif()
    exif.endian = endian
    exif.update({0x010F: "Maker", 0x0112: orientation, 0x011A: 72.0})
    return exif


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("crop_fraction", [0.5, 0.875, 1])
@pytest.mark.parametrize("resize", ["crop", "pad", "squash"])
def test_the_centre_is_nearly_that_of_pillow(interpolation, crop_fraction, resize):
    preprocessing = Preprocessing(24, crop_fraction, interpolation, resize=resize)
    for size in ((51, 37), (37, 51), (9, 7), (8, 8), (1, 1), (1, 90)):
        image = np.asarray(PICTURE.resize(size))
        got = np.asarray(resize_center(tf.constant(image), preprocessing))
        np.testing.assert_allclose(got, preprocessing(image), atol=2)


CENTERS = (
    (24, 0.875, "crop"),
    (24, 0.3, "crop"),
    (100, 0.9, "crop"),
    (24, 1, "pad"),
    (24, 1, "squash"),
)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("options", [{"subsampling": 0}, {}, {"progressive": True}], ids=str)
def test_a_decoded_center_is_that_of_the_whole_image(options, interpolation):
    for size in ((211, 130), (64, 203), (40, 41), (17, 9), (1, 90)):
        content = tf.constant(encoded(PICTURE.resize(size), "JPEG", **options))
        for side, part, resize in CENTERS:
            preprocessing = Preprocessing(side, part, interpolation, resize=resize)
            got = decode_center(content, preprocessing)
            expected = preprocessing(np.asarray(decode(content)))
            assert np.abs(got - resize_center(decode(content), preprocessing)).max() < 1e-3
            np.testing.assert_allclose(got, expected, atol=2)


@pytest.mark.parametrize("resize", ["pad", "squash"])
@pytest.mark.parametrize("size", [(64, 16), (16, 64), (6, 6)])
def test_windows_are_of_the_whole_image(resize, size):
    """A window of everything is the view of tests; a quarter of it is that quarter, enlarged."""
    image = tf.constant(np.asarray(PICTURE.resize(size)))
    whole = resize_window(image, resize, lambda shape: tf.stack([0, 0, *shape[:2]]), 16)
    expected = resize_center(image, Preprocessing(16, 1, "bilinear", resize=resize))
    assert np.abs(whole - expected).max() < 1e-3
    half = max(size) // 2
    corner = resize_window(image, resize, lambda shape: tf.fill([4], half), 8)
    assert np.abs(corner - expected[8:, 8:])[:-1, :-1].max() < 9


@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_images_are_turned_upright(kind, endian):
    for number, store in enumerate(UPRIGHT, 1):
        stored = encoded(store(PICTURE), kind, exif=exif_of(number, endian))
        expected = ImageOps.exif_transpose(Image.open(io.BytesIO(stored)))
        np.testing.assert_array_equal(decode(stored), expected)
        window = decode_window(tf.constant(stored), lambda shape: tf.constant([5, 8, 20, 31]))
        difference = np.asarray(window, int) - np.asarray(expected, int)[5:25, 8:39]
        assert np.abs(difference)[1:-1, 1:-1].max() <= (4 if kind == "JPEG" else 0)


def test_damaged_exif_leaves_an_image_as_it_is_stored():
    stored, random = encoded(PICTURE, "JPEG", exif=exif_of(6, "<")), np.random.default_rng(0)
    begin, end = stored.index(b"Exif"), stored.index(b"Maker")
    for value in (0, 9, 65535):
        assert orientation(encoded(PICTURE, "JPEG", exif=exif_of(value, ">"))) == 1
    for _ in range(100):
        damaged = bytearray(stored)
        damaged[random.integers(begin, end)] = random.integers(256)
        assert orientation(bytes(damaged[: random.integers(begin, len(stored))])) in (1, 6)
    assert orientation(b"") == 1


@pytest.mark.parametrize("mode", ["L", "1", "P", "RGBA", "LA", "CMYK"])
def test_images_of_every_mode_become_rgb(mode):
    grey = PICTURE.convert("L")
    if mode == "CMYK":
        stored = encoded(PICTURE.convert("CMYK"), "JPEG", quality=100, subsampling=0)
    else:
        stored = encoded(PICTURE.convert(mode))
    expected = grey if mode in ("L", "LA") else PICTURE.convert(mode)
    expected = np.asarray(expected.convert("RGB"), int)
    np.testing.assert_allclose(decode(stored).numpy(), expected, atol=3 if mode == "CMYK" else 0)


@pytest.mark.parametrize("mode", ["LA", "P", "RGB"])
def test_transparent_pixels_are_white(mode):
    image, options = Image.new(mode, (4, 4)), {}
    if mode == "P":
        image.putpalette([0, 0, 0, 255, 0, 0])
        options = {"transparency": b"\x00\xff"}
    if mode == "RGB":
        options = {"transparency": (0, 0, 0)}
    np.testing.assert_array_equal(decode(encoded(image, **options)), np.full((4, 4, 3), 255))
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 4)).astype("uint8")
    image = Image.fromarray(pixels)  # half transparent
    expected = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    np.testing.assert_array_equal(decode(encoded(image)), expected)


@pytest.mark.parametrize("window", [(0, 0, 37, 51), (5, 8, 20, 31), (36, 50, 1, 1)])
@pytest.mark.parametrize(
    "content",
    [jpeg(70, (51, 37), subsampling=s, progressive=p) for s, p in ((0, 0), (2, 0), (2, 1))]
    + [encoded(PICTURE.convert(mode)) for mode in ("RGB", "L", "P", "RGBA")],
    ids=["444", "420", "progressive", "png", "gray", "palette", "rgba"],
)
def test_a_window_is_what_decoding_and_cropping_gives(content, window):
    got = decode_window(tf.constant(content), lambda shape: tf.constant(window))
    whole = tf.io.decode_image(content, channels=3, expand_animations=False)
    top, left, height, width = window
    expected = whole[top : top + height, left : left + width]
    # Chroma at the border of a window is interpolated without the pixels beyond it.
    difference = np.abs(np.asarray(got, int) - np.asarray(expected, int))
    assert difference.shape == (height, width, 3)
    np.testing.assert_array_equal(difference[1:-1, 1:-1], 0)
    assert difference.max(initial=0) <= 40


def test_attempt(capfd):
    good, bad = jpeg(1), b"\xff\xd8\xff what follows is no JPEG"
    name = b"a\x1b[31m\n\xff\xc2\x9b.jpg"  # which commands no terminal
    shown = "data: unreadable image: a\ufffd[31m\ufffd\ufffd\ufffd.jpg"
    shape = decode(good).shape

    @tf.function
    def run(files, skip):
        def read(file, addend):
            return tf.ensure_shape(decode(file), shape) + addend

        addends = tf.range(tf.size(files))
        inputs = files, tf.cast(addends, tf.uint8)
        return attempt(read, inputs, tf.fill(tf.shape(files), name), skip)

    for skip in (True, False):
        images, readable = run(tf.constant([good, good]), skip)
        np.testing.assert_array_equal(images, [decode(good), decode(good) + 1])
        assert readable.numpy().all()
    assert "data:" not in capfd.readouterr().err
    images, readable = run(tf.constant([good, bad, good]), True)
    assert readable.numpy().tolist() == [True, False, True]
    np.testing.assert_array_equal(images[0], decode(good))
    assert not np.any(images[1])
    np.testing.assert_array_equal(images[2], decode(good) + 2)
    assert capfd.readouterr().err.count(f"{shown}\n") == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(shown)):
        run(tf.constant([good, bad, good]), False)


@pytest.mark.parametrize("channels", [1, 4])
def test_png_of_16_bits_is_an_error_in_a_graph_too(channels):
    deep = tf.io.encode_png(np.full((4, 4, channels), 4095, "uint16"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="16-bit PNG"):
        tf.function(decode)(deep)
    others = [jpeg(1), encoded(PICTURE), b"", b"name.png"]
    assert is_deep_png(tf.stack([deep, *others])).numpy().tolist() == [True, *[False] * 4]


def readable(read, content):
    with suppress(ValueError, tf.errors.OpError):
        return read(content) is not None
    return False


@pytest.mark.parametrize("kind", ["baseline", "progressive", "png"])
def test_the_quick_check_fails_where_decoding_does(kind):
    progressive = kind == "progressive"
    content = encoded(PICTURE) if kind == "png" else jpeg(70, (51, 37), progressive=progressive)
    random, found = np.random.default_rng(0), []
    for i in range(40):
        damaged = bytearray(content)
        if i % 2:
            del damaged[random.integers(3, len(content)) :]
        else:
            damaged[random.integers(len(content))] ^= 1 << random.integers(8)
        damaged = bytes(damaged)
        found.append(readable(check_content, damaged))
        assert found[-1] == readable(decode, damaged)
    assert readable(check_content, content)
    assert not all(found)
    assert kind == "png" or any(found)
