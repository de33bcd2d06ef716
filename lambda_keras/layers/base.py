"""Base class of the layers, whose configuration is their arguments."""

import inspect
from typing import Any

import keras


def arguments_of(layer: type) -> dict[str, Any]:
    """Arguments of a layer class and their defaults, without those of `keras.layers.Layer`."""
    found: dict[str, Any] = {}
    for base in layer.__mro__[: layer.__mro__.index(keras.layers.Layer)]:
        if "__init__" in vars(base):
            _, *parameters = inspect.signature(base.__init__).parameters.values()  # without self
            for one in parameters:
                if one.kind is not one.VAR_KEYWORD:
                    found.setdefault(one.name, one.default)
    return found


class Layer(keras.layers.Layer):
    """A layer that keeps each argument as an attribute, from which `get_config` reads it."""

    def get_config(self):
        return {**super().get_config(), **serialized_arguments(type(self), self)}


def serialized_arguments(layer: type, source: Any) -> dict[str, Any]:
    """Arguments of a layer class as attributes of an object, for a configuration."""
    config = {name: getattr(source, name) for name in arguments_of(layer)}
    for name, value in config.items():
        if name.endswith(("_initializer", "_regularizer")):
            config[name] = keras.saving.serialize_keras_object(value)
    return config
