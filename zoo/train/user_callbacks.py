"""Custom callbacks, by import path."""

from collections.abc import Sequence
from importlib import import_module

import keras


def load_callbacks(places: Sequence[str]) -> list[keras.callbacks.Callback]:
    """Imports and creates callbacks; that runs their code.

    Args:
        places: `package.module:Name` of classes, or of functions that return a callback; they get
            no arguments.

    Raises:
        ValueError: If one cannot be imported or created, or is no callback.
    """
    return [_load(place) for place in places]


def _load(place: str) -> keras.callbacks.Callback:
    module, _, name = place.partition(":")
    try:
        callback = getattr(import_module(module), name)()
    except Exception as error:  # the code of others raises many kinds
        raise ValueError(
            "training.callbacks: expected what can be imported and called without arguments. "
            f"Received: {place!r} ({type(error).__name__}: {error})"
        ) from error
    if not isinstance(callback, keras.callbacks.Callback):
        raise ValueError(
            "training.callbacks: expected a keras.callbacks.Callback. Received: "
            f"{type(callback).__name__} from {place!r}"
        )
    return callback
