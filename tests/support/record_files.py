"""Small data sets on disk, which `tools.buckets` reads, too."""

import io

from PIL import Image

from tools.record_files import jpeg, write_imagenet, write_tfds, write_tfrecords

__all__ = ["encoded", "jpeg", "write_imagenet", "write_tfds", "write_tfrecords"]


def encoded(image: Image.Image, kind="png", **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()
