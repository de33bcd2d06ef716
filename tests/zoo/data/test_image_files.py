"""Image files of other formats than JPEG and PNG."""

import struct
from io import BytesIO

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from support.record_files import encoded

from zoo.data.crops import decode
from zoo.data.image_files import DeepPixelsError, to_jpeg_or_png, to_png
from zoo.data.sources.stored import FilePath

NOISE = np.random.default_rng(0).integers(0, 256, (30, 40, 3)).astype("uint8")
CHANNELS = (1, 2, 3, 4)
LOSSLESS = {"bmp": {}, "tiff": {}, "webp": {"lossless": True}, "gif": {}}


@pytest.mark.parametrize("suffix", LOSSLESS)
def test_pixels_are_those_of_pillow(suffix):
    content = encoded(Image.fromarray(NOISE), suffix, **LOSSLESS[suffix])
    with Image.open(BytesIO(content)) as image:
        expected = np.asarray(image.convert("RGB"))
    np.testing.assert_array_equal(decode(to_jpeg_or_png(content)), expected)
    assert suffix == "gif" or (expected == NOISE).all()


def test_upright_on_white_first_frame():
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn to the right
    turned = encoded(Image.fromarray(NOISE), "webp", lossless=True, exif=exif.tobytes())
    np.testing.assert_array_equal(decode(to_jpeg_or_png(turned)), np.rot90(NOISE, -1))
    for suffix, mode in (("webp", "RGBA"), ("gif", "RGBA"), ("tiff", "RGBA"), ("tiff", "LA")):
        clear = encoded(Image.new(mode, (4, 4)), suffix)
        assert (np.asarray(decode(to_jpeg_or_png(clear))) == 255).all()
    frames = [Image.new("RGB", (4, 4), color) for color in ("red", "blue")]
    moving = encoded(frames[0], "gif", save_all=True, append_images=frames[1:])
    assert (np.asarray(decode(to_jpeg_or_png(moving)))[..., 0] > 250).all()


def test_bmp_of_5_and_6_bits():
    """As cameras and microcontrollers write them: red, green, blue and white in 16 bits each."""
    sizes = struct.pack("<IiiHHI5i", 40, 2, -2, 1, 16, 3, 8, 0, 0, 0, 0)
    masks, pixels = struct.pack("<3I", 0xF800, 0x7E0, 0x1F), struct.pack("<4H", *COLORS_565)
    head = b"BM" + struct.pack("<IHHI", 74, 0, 0, 66)
    image = decode(to_jpeg_or_png(head + sizes + masks + pixels))
    expected = [[(255, 0, 0), (0, 255, 0)], [(0, 0, 255), (255, 255, 255)]]
    np.testing.assert_array_equal(image, expected)


COLORS_565 = (0xF800, 0x7E0, 0x1F, 0xFFFF)
EIGHT = b"\x08\0" * 3  # bits per sample of a TIFF
DEEP = {
    **{f"tiff {mode}": encoded(Image.new(mode, (4, 4)), "tiff") for mode in ("I", "F", "I;16")},
    "tiff RGB": encoded(Image.fromarray(NOISE), "tiff").replace(EIGHT, b"\x10\0" * 3),
    "tiff signed": encoded(Image.new("L", (4, 4)), "tiff", tiffinfo={339: 2}),
    **{f"png {n}": bytes(tf.io.encode_png(np.ones((4, 4, n), "uint16")).numpy()) for n in CHANNELS},
}


@pytest.mark.parametrize("content", DEEP.values(), ids=DEEP)
def test_pixels_of_more_bits_are_refused(content):
    message = "(16-bit PNG|more than 8 bits).*; scale it to 8 bits first, such as np.uint8"
    with Image.open(BytesIO(content)) as image, pytest.raises(DeepPixelsError, match=message):
        to_png(image)
    with pytest.raises(DeepPixelsError, match=message):
        to_jpeg_or_png(content)


@pytest.mark.parametrize("content", [b"", b"text", b"\0\0\0\x18ftypheic", b"<svg/>"])
def test_other_files_are_refused(content):
    with pytest.raises(ValueError, match="not an image of JPEG, PNG, BMP, GIF, TIFF, WEBP"):
        to_jpeg_or_png(content)


def test_image_folder_converts_other_formats_than_jpeg_and_png_in_a_graph(tmp_path):
    convert = tf.function(FilePath().file)
    for suffix, options in {**LOSSLESS, "png": {}, "jpeg": {}}.items():
        content = encoded(Image.fromarray(NOISE), suffix, **options)
        (tmp_path / suffix).write_bytes(content)
        found = convert(tf.constant(str(tmp_path / suffix))).numpy()
        assert found == to_jpeg_or_png(content)
        assert (found == content) is (suffix in ("png", "jpeg"))
