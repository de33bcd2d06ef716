"""Images for int8 calibration, on which quantizers measure the ranges of activations."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.data.readable import check_readable
from zoo.export.base import Options

if TYPE_CHECKING:
    from zoo.inference.classifier import Classifier

MOST = 300  # images; more hardly change the ranges
LEAST = 10  # with fewer, ranges fit these images only


class CalibrationImages:
    """Preprocessed images, one after another, from evenly spaced files of the options.

    With a fixed batch size, each image fills a batch. Every iteration reads the files again.
    """

    def __init__(self, classifier: "Classifier", options: Options):
        number = min(len(options.calibration), MOST)
        chosen = np.linspace(0, len(options.calibration) - 1, number).astype(int)
        self.files: list[Path] = [options.calibration[i] for i in chosen]
        self._classifier, self.batch = classifier, options.batch_size or 1
        check_readable([str(path) for path in self.files])

    def __iter__(self) -> Iterator[np.ndarray[Any, Any]]:
        for path in self.files:
            yield np.stack([self._classifier.view(path)] * self.batch)

    def __len__(self) -> int:
        return len(self.files)
