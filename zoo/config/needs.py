"""Checks of settings that only have an effect together with another setting."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Self

from pydantic import model_validator

from zoo.cli.settings import Section
from zoo.errors import refusal


@dataclass(frozen=True)
class Needs:
    """Annotation of a field that may be set only with another setting of the same section."""

    setting: str
    values: Collection[Any]  # of that setting; none: any but None and False
    expected: str  # both texts may have {name} and {value} of the field, and {other}, the setting's
    received: str

    def check(self, section: Section, name: str, default: Any) -> None:
        """Refuses a value of the field if the other setting does not fit."""
        value, other = getattr(section, name), getattr(section, self.setting)
        fits = other in self.values if self.values else other is not None and other is not False
        if value not in (None, False, default) and not fits:
            texts = {"name": name, "value": value, "other": other}
            raise refusal(self.expected.format_map(texts), self.received.format_map(texts))


def only_for(setting: str, *values: str) -> Needs:
    """Returns the `Needs` of a field that requires a setting with one of these values."""
    names = " or ".join(f"{setting}={value}" for value in values)
    return Needs(
        setting, values, f"{{name}} is for {names} only", f"{{name}}={{value}}, {setting}={{other}}"
    )


def needs(other: str, received: str, what: str = "{name}") -> Needs:
    """Returns the `Needs` of a field that requires another setting, `NAME` or `NAME=VALUE`."""
    setting, _, value = other.partition("=")
    return Needs(setting, [value] if value else [], f"{what} needs {other}", received)


class Dependent(Section):
    """A section whose fields may have `Needs`."""

    @model_validator(mode="after")
    def _check_needs(self) -> Self:
        for name, field in type(self).model_fields.items():
            for need in field.metadata:
                if isinstance(need, Needs):
                    need.check(self, name, field.default)
        return self
