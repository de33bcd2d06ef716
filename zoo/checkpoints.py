"""Saving the weights during training."""

from pathlib import Path

import keras

from zoo.files import replacing


class LastWeights(keras.callbacks.Callback):
    """Saves the weights after every epoch; the file is whole at any moment.

    `keras.callbacks.ModelCheckpoint` writes over the last good file in place.

    Args:
        path: The `.weights.h5` file.
    """

    model: keras.Model  # set by `fit`

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        with replacing(self.path) as path:
            self.model.save_weights(path)
