"""Images for calibration: which files, of what sizes, in which batches."""

import numpy as np
import pytest
from PIL import Image
from support.servables import write_images

from zoo.export.base import Options
from zoo.export.calibration import MOST, CalibrationImages


def test_files_are_spaced_evenly(servable, tmp_path):
    files = write_images(tmp_path, 2 * MOST - 1)
    images = CalibrationImages(servable, Options(calibration=files))
    assert images.files == files[::2]
    assert len(images) == MOST


def test_images_of_every_size_are_preprocessed_in_fixed_batches(servable, tmp_path):
    files = [tmp_path / f"{i}.png" for i in range(3)]
    for i, path in enumerate(files):
        Image.new("RGB", (20 + 7 * i, 50 - 9 * i), (i, 2, 3)).save(path)
    images = CalibrationImages(servable, Options(calibration=files, batch_size=2))
    for _ in range(2):  # quantizers iterate several times
        batches = list(images)
        assert [batch.shape for batch in batches] == [(2, 16, 16, 3)] * 3
        for path, batch in zip(files, batches, strict=True):
            np.testing.assert_array_equal(batch, [servable.view(path)] * 2)


def test_unreadable_images_are_named(servable, tmp_path):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"unreadable image files: .*broken\.jpg"):
        CalibrationImages(servable, Options(calibration=[broken]))
