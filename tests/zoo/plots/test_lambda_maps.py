"""Figures of the page: right places framed, right colors over them."""

import numpy as np
import pytest

from zoo.plots import lambda_maps
from zoo.plots.lambda_maps import VIEW, draw_maps, draw_position

BLACK, WHITE = np.zeros((16, 16, 3)), np.full((16, 16, 3), 255.0)


@pytest.mark.parametrize("grid", [(4, 4), (4, 8)])
def test_the_position_is_framed_on_any_image(grid):
    for image in (BLACK, WHITE):
        picture = draw_position(image, grid, 1, 2).astype(int)
        assert picture.shape == (VIEW, VIEW, 3)
        changed = np.argwhere((picture != image[0, 0]).any(-1))
        height, width = VIEW // grid[0], VIEW // grid[1]
        np.testing.assert_allclose(changed.min(0), (height, 2 * width), atol=4)
        np.testing.assert_allclose(changed.max(0), (2 * height, 3 * width), atol=4)
        assert picture[height + height // 2, 2 * width + width // 2].tolist() == [*image[0, 0]]


def image_part(picture) -> np.ndarray:
    """The square that a single map fills, without title, frame and color bar."""
    return picture[80:600, 20:590].astype(int)


def test_signs_have_colors_zero_is_gray_and_the_image_shines_through():
    image, weights = BLACK.copy(), np.zeros((4, 4))
    weights[:, 0], weights[:, 3] = 0.5, -0.5
    map_ = image_part(draw_maps(image, {"map": weights}, 0, 1))
    middle = map_[len(map_) // 2]
    assert middle[20, 0] > middle[20, 2] + 50  # red
    assert middle[-20, 2] > middle[-20, 0] + 50  # blue
    assert np.ptp(middle[len(middle) // 2]) <= 2  # gray
    image[:, 8:] = 255
    for weights in (np.zeros((4, 4)), np.ones((4, 4))):
        middle = image_part(draw_maps(image, {"map": weights}, 0, 1))[300]
        assert middle[-30].sum() > middle[30].sum() + 100


def test_maps_stand_side_by_side_with_their_titles_and_scales(monkeypatch):
    figures, pixels = [], lambda_maps.to_pixels
    monkeypatch.setattr(
        lambda_maps, "to_pixels", lambda figure, dpi: figures.append(figure) or pixels(figure, dpi)
    )
    maps = {"content": np.full((2, 3), 0.25), "position": np.full((2, 3), -4.0)}
    draw_maps(BLACK, maps, 1, 2)
    panels, bars = figures[0].axes[:2], figures[0].axes[2:]
    assert [axis.get_title(loc="left") for axis in panels] == list(maps)
    assert [bar.get_xlim() for bar in bars] == [(-0.25, 0.25), (-4, 4)]
    for axis in panels:
        assert axis.patches[-1].get_xy() == (1.5, 0.5)
