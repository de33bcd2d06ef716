"""Draws attention maps and lambdas (Figure 1): `python -m zoo.maps photo.jpg --run RUN`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from zoo.config.model_options import WeightsOptions
from zoo.data.readable import check_readable
from zoo.errors import require
from zoo.fields import LocalPath, OutputFile, named
from zoo.inference.photos import Photos, check_replaces_none, find_photos

if TYPE_CHECKING:
    from zoo.inference.classifier import Classifier
    from zoo.plots.lambda_maps import Row


class MapsConfig(WeightsOptions):
    """Draws attention maps or lambdas of each network's last such layer, at queries of an image.

    For each query, an attention layer computes a map of weights, a lambda layer a matrix, its
    lambda. Weights that the lambda has for each place are drawn, too; the layer never forms them.

    Examples:
      python -m zoo.maps photo.jpg --run runs/lambda --beside runs/global --output maps.png
      python -m zoo.maps photo.png --model lambda_resnet14 --weights fashion_mnist --output maps.png
    """

    photos: Photos
    beside: list[LocalPath] = Field(default=[])
    """Folders of further finished runs to draw below, with the same image and map size."""
    queries: list[Annotated[str, Field(pattern=r"^\d+:\d+$")]] = Field(default=[])
    """Rows and columns of queries, from 0, e.g. 1:0,6:7; none: three on the diagonal."""
    output: Annotated[OutputFile, named(".png")]
    """File to write (.png)."""


def run(config: MapsConfig) -> None:
    """Loads the networks, computes the maps of each, and draws them."""
    photos = find_photos(config.photos)
    require(len(photos) == 1, "photos: expected one image", len(photos))
    check_replaces_none(config.output, photos)
    check_readable([str(photo) for photo in photos])
    from zoo.inference.lambda_maps import attention_layers, lambda_layers
    from zoo.inference.source.kinds import choose
    from zoo.inference.source.run import Run
    from zoo.plots.lambda_maps import plot_rows

    runs = []
    for source in (choose(config), *map(Run, config.beside)):
        classifier = source.load()
        layers = {**lambda_layers(classifier.model), **attention_layers(classifier.model)}
        if not layers:
            name = classifier.name
            raise ValueError(f"expected layers of lambdas or attention. Received: {name}")
        last = [layer.name for layer in classifier.model.layers if layer.name in layers][-1]
        runs.append((classifier, last, layers[last]))
    sizes = {(classifier.image_size, grid) for classifier, _, grid in runs}
    require(len(sizes) <= 1, "beside: expected equal image and map sizes", sorted(sizes))
    ((_, grid),) = sizes
    queries: list[Any] = [tuple(map(int, query.split(":"))) for query in config.queries]
    queries = queries or [(grid[0] * i // 4, grid[1] * i // 4) for i in (1, 2, 3)]
    rows = [row for network, last, _ in runs for row in _rows(network, last, photos[0], queries)]
    plot_rows(runs[0][0].view(photos[0]), queries, grid, rows, config.output)
    print(f"wrote {config.output}")


def _rows(
    classifier: "Classifier", name: str, photo: Any, queries: Sequence[tuple[int, ...]]
) -> list["Row"]:
    """Returns the rows of a layer: its attention maps, or its lambdas and their weights."""
    import numpy as np

    from lambda_keras.applications import preprocess_input
    from zoo.inference import lambda_maps
    from zoo.plots.lambda_maps import Row

    model: Any = classifier.model
    layer = model.get_layer(name)
    image = preprocess_input(classifier.view(photo))

    def each(function: Any) -> list[Any]:
        return [function(model, name, image, *query) for query in queries]

    if name in lambda_maps.attention_layers(model):
        maps = [weights.mean(0) for weights in each(lambda_maps.attention_maps)]
        title = f"Attention maps of {name}, mean of {layer.num_heads} heads"
        return [Row(f"{title}: one weight for each place", maps, over_image=True)]
    lambdas = each(lambda_maps.lambdas)
    parts = [[maps.content, maps.position] for maps in each(lambda_maps.lambda_maps)]
    maps: list[Any] = [sum(part.mean(0) for part in pair if part is not None) for pair in parts]
    k, v = lambdas[0].shape[1:]
    return [
        Row(
            f"Lambdas of {name}: {k} x {v} numbers, whatever the size of the map",
            [np.concatenate(groups) for groups in lambdas],
            over_image=False,
        ),
        Row(
            f"What these lambdas weigh, mean of {layer.num_heads} heads; the layer never forms it",
            maps,
            over_image=True,
        ),
    ]
