"""Decoding the part of an image that is looked at."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from record_files import jpeg

from zoo.data.crops import attempt, centre_window, decode_small, decode_window, resize_centre


@pytest.mark.parametrize("shape", [(40, 80), (80, 40), (1, 1), (33, 33)])
def test_resize_centre_keeps_the_middle(shape):
    image = np.zeros((*shape, 3), "uint8")
    height, width = shape
    image[height // 4 : -(-height * 3 // 4), width // 4 : -(-width * 3 // 4)] = 255
    got = np.asarray(resize_centre(tf.constant(image), 16))
    assert got.shape == (16, 16, 3)
    np.testing.assert_allclose(got[8, 8], [255] * 3, rtol=1e-6)


def test_resize_centre_is_resizing_and_cropping():
    image = tf.constant(np.random.default_rng(0).integers(0, 256, (64, 128, 3)).astype("uint8"))
    got = resize_centre(image, 28)
    resized = tf.image.resize(image, (32, 64), antialias=True)
    expected = tf.image.resize_with_crop_or_pad(resized, 28, 28)
    np.testing.assert_allclose(got[2:-2, 2:-2], expected[2:-2, 2:-2], atol=1e-3)


def png(mode):
    file = io.BytesIO()
    Image.open(io.BytesIO(jpeg(70, (51, 37)))).convert(mode).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize("window", [(0, 0, 37, 51), (5, 8, 20, 31), (36, 50, 1, 1)])
@pytest.mark.parametrize(
    "encoded",
    [jpeg(70, (51, 37), subsampling=s, progressive=p) for s, p in ((0, 0), (2, 0), (2, 1))]
    + [png(mode) for mode in ("RGB", "L", "P", "RGBA")],
    ids=["444", "420", "progressive", "png", "gray", "palette", "rgba"],
)
def test_a_window_is_what_decoding_and_cropping_gives(encoded, window):
    got = decode_window(tf.constant(encoded), lambda shape: tf.constant(window))
    whole = tf.io.decode_image(encoded, channels=3, expand_animations=False)
    top, left, height, width = window
    expected = whole[top : top + height, left : left + width]
    # Chroma at the border of a window is interpolated without the pixels beyond it.
    difference = np.abs(np.asarray(got, int) - np.asarray(expected, int))
    assert difference.shape == (height, width, 3)
    np.testing.assert_array_equal(difference[1:-1, 1:-1], 0)
    assert difference.max(initial=0) <= 40


def test_windows_are_in_the_image():
    assert centre_window(tf.constant([100, 50, 3])).numpy().tolist() == [28, 3, 43, 43]
    assert centre_window(tf.constant([1, 1, 3])).numpy().tolist() == [0, 0, 1, 1]


def test_attempt(capfd):
    good, bad = tf.constant(jpeg(1)), tf.constant(b"\xff\xd8\xff what follows is no JPEG")

    def read(encoded):
        return decode_window(encoded, centre_window)

    @tf.function
    def run(encoded, skip):
        return attempt(lambda: read(encoded), tf.constant("a.jpg"), skip)

    for skip in (True, False):
        image, readable = run(good, skip)
        np.testing.assert_array_equal(image, read(good))
        assert readable
    assert "a.jpg" not in capfd.readouterr().err
    image, readable = run(bad, True)
    assert not readable
    assert not np.any(image)
    assert "data: unreadable image: a.jpg\n" in capfd.readouterr().err
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"data: unreadable image: a\.jpg"):
        run(bad, False)


def test_names_of_images_command_no_terminal(capfd):
    bad = tf.constant(b"no image")
    name = tf.constant(b"a\x1b[31m\n\xff\xc2\x9b.jpg")
    attempt(lambda: decode_window(bad, centre_window), name, True)
    assert "unreadable image: a\ufffd[31m\ufffd\ufffd\ufffd.jpg\n" in capfd.readouterr().err


def readable(decode, content):
    try:
        decode(content)
    except (ValueError, tf.errors.OpError):
        return False
    return True


@pytest.mark.parametrize("kind", ["baseline", "progressive", "png"])
def test_the_quick_check_fails_where_decoding_does(kind):
    content = png("RGB") if kind == "png" else jpeg(70, (51, 37), progressive=kind != "baseline")
    random, found = np.random.default_rng(0), []
    for i in range(40):
        damaged = bytearray(content)
        if i % 2:
            del damaged[random.integers(3, len(content)) :]
        else:
            damaged[random.integers(len(content))] ^= 1 << random.integers(8)
        damaged = bytes(damaged)
        found.append(readable(decode_small, damaged))
        whole = readable(lambda c: decode_window(c, lambda shape: [0, 0, *shape[:2]]), damaged)
        assert found[-1] == whole
    assert readable(decode_small, content)
    assert not all(found)
    assert kind == "png" or any(found)
