"""The server of buckets that `tools.buckets` measures with, for tests."""

from tools.bucket_server import BucketServer, Request, serving

__all__ = ["BucketServer", "Request", "serving"]
