"""Whether weights fit a model, decided before any of them is assigned."""

from collections.abc import Mapping

import keras

CLASSIFIER = "predictions"


def has_classifier(model: keras.Model) -> bool:
    """Whether the model was built with `include_top=True`."""
    return any(layer.name == CLASSIFIER for layer in model.layers)


def check_fit(
    model: keras.Model, source: str, kind: str, expected: Mapping, received: Mapping
) -> None:
    """Compares names and shapes, of all layers or tensors of a file with those of a model.

    Args:
        model: the model, for the message.
        source: where the weights come from, for the message.
        kind: what is compared, `"layer"` or `"tensor"`.
        expected: shapes by name, as the model needs them.
        received: shapes by name, as the file has them.

    Raises:
        ValueError: if anything differs; it names the first differences.
    """
    none = f"no such {kind}"
    differences = [
        f"{name}: expected {expected.get(name, none)}, received {received.get(name, none)}"
        for name in sorted(expected.keys() | received.keys())
        if expected.get(name) != received.get(name)
    ]
    if differences:
        others = f" and {len(differences) - 3} more {kind}s" if len(differences) > 3 else ""
        raise ValueError(
            f"the weights in {source!r} do not fit the model {model.name!r} (another network, "
            f"scope, or number of classes): {'; '.join(differences[:3])}{others}"
        )
