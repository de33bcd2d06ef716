"""Signatures of exports, by name."""

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def with_default(signatures: Mapping[str, T], default_signature: str = "images") -> dict[str, T]:
    """Renames or copies the row of the default signature to `serving_default`."""
    others = {n: one for n, one in signatures.items() if n != "images" or n != default_signature}
    return {"serving_default": signatures[default_signature], **others}
