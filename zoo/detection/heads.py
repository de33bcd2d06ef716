"""The setting `model.heads`: values of the Model Garden's fields of a detector."""

import reprlib
from collections.abc import Mapping
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from zoo.config.detection import STRIDE
from zoo.detection.backbone import LEVELS
from zoo.errors import needs_extra, unknown

with needs_extra("detection"):
    from official.modeling import hyperparams

# Fields that other settings determine, or that this package does not support.
DECIDED = {
    "num_classes": "the categories of the data decide it",
    "input_size": "model.image_size decides it",
    "backbone": "model.name and model.overrides decide it",
    "norm_activation.norm_momentum": "model.batch_norm_momentum decides it",
    "norm_activation.use_sync_bn": "model.synchronized_batch_norm decides it",
    "outer_boxes_scale": "masks fill their boxes",
    "detection_generator.apply_nms": "overlapping boxes are always removed",
}
MAY_BE_0 = ("num_convs", "num_fcs")
LARGEST = 2**16
NMS = ("v1", "v2", "v3", "batched")
CHECKED = ConfigDict(strict=True, allow_inf_nan=False)


def override(model: Any, heads: Mapping[str, Any]) -> None:
    """Sets fields of the Model Garden's `MaskRCNN` after checking their types and ranges.

    Args:
        model: Settings of a detector in the Model Garden.
        heads: New values by field, with groups of fields as dictionaries.

    Raises:
        ValueError: If a field is unknown, other settings determine it, or the value does not fit.

    Example:
    >>> from official.vision.configs.maskrcnn import MaskRCNN
    >>> from zoo.detection.heads import override
    >>> model = MaskRCNN()
    >>> override(model, {"decoder": {"fpn": {"num_filters": 64}}})
    >>> model.decoder.fpn.num_filters
    64
    """
    try:
        _check(model, heads)
        model.override(dict(heads), is_strict=True)
        low, high, highest = model.min_level, model.max_level, STRIDE.bit_length() - 1
        if not min(map(int, LEVELS)) <= low <= min(high, max(map(int, LEVELS))) <= high <= highest:
            raise ValueError(
                f"expected min_level from 2 to 5, and max_level from that to {highest}. Received: "
                f"min_level={low}, max_level={high}"
            )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"model.heads: {' '.join(str(error).split())}") from None


def _check(group: Any, heads: Mapping[str, Any], name: str = "") -> None:
    hints = get_type_hints(type(group))
    for key, value in heads.items():
        place = f"{name}{key}"
        if place in DECIDED:
            raise ValueError(f"{place}: expected no value, for {DECIDED[place]}")
        field = getattr(group, key, None)
        if key not in hints:
            own = get_type_hints(hyperparams.Config)
            known = [hint for hint in hints if hint not in own and name + hint not in DECIDED]
            raise ValueError(
                f"expected fields of the Model Garden's MaskRCNN. {unknown(place, known)}"
            )
        if isinstance(field, hyperparams.Config):
            if not isinstance(value, dict):
                raise ValueError(f"{place}: expected fields. Received: {reprlib.repr(value)}")
            _check(field, value, f"{place}.")
            continue
        try:
            TypeAdapter(hints[key], config=CHECKED).validate_python(value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise ValueError(f"{place}: {reason}. Received: {reprlib.repr(value)}") from None
        if not _in_range(key, value):
            raise ValueError(f"{place}: out of range. Received: {reprlib.repr(value)}")


def _in_range(key: str, value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_in_range(key, one) for one in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(key not in MAY_BE_0) <= value <= LARGEST
    if isinstance(value, float):
        return 0 <= value <= LARGEST
    return key != "nms_version" or value in NMS
