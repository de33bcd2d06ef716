"""Small data sets on disk, which `tools.buckets` reads, too."""

from tools.record_files import jpeg, write_imagenet, write_tfds, write_tfrecords

__all__ = ["jpeg", "write_imagenet", "write_tfds", "write_tfrecords"]
