"""Checked settings from a command line and a YAML file, with errors of one line."""

import inspect
import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import pairwise, zip_longest
from json import JSONDecodeError
from pathlib import Path
from typing import Any, Self, get_args, get_origin

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    CliPositionalArg,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    YamlConfigSettingsSource,
)

from zoo.errors import unknown
from zoo.fields import AnyPath, read_settings

STRICT = ConfigDict(
    extra="forbid",
    frozen=True,
    validate_default=True,
    allow_inf_nan=False,
    use_attribute_docstrings=True,
)


class _NoEmptyText(BaseModel):
    """Refuses empty text, most likely an unset shell variable, unless it is the default.

    Pydantic's own limit of length would refuse names of files that are not UTF-8, too.
    """

    @field_validator("*")
    @classmethod
    def _check_text(cls, value: Any, info: ValidationInfo) -> Any:
        texts = value if isinstance(value, list | tuple) else [value]
        empty = any(isinstance(text, str) and not text for text in texts)
        if empty and cls.model_fields[str(info.field_name)].default != "":
            raise ValueError("String should have at least 1 character. Received: ''")
        return value


class Section(_NoEmptyText):
    """A group of settings; unknown keys are errors."""

    model_config = STRICT


# The configuration of settings has all fields of the configuration of models.
class Settings(  # pyright: ignore[reportIncompatibleVariableOverride]
    BaseSettings, _NoEmptyText
):
    """Settings of one command; the docstring of a subclass is the head of its `--help`.

    The command line overrides the YAML file, which overrides defaults.
    """

    model_config = SettingsConfigDict(
        **STRICT, cli_avoid_json=True, cli_hide_none_type=True, cli_exit_on_error=False
    )
    _command: str = PrivateAttr("")

    config: AnyPath | None = Field(default=None, exclude=True)
    """YAML file with these settings."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.__doc__ = inspect.cleandoc(cls.__doc__ or "")  # --help prints it unchanged

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Leaves out environment variables, because they are not saved with a run."""
        return init_settings, _ConfigFile(settings_cls)

    @classmethod
    def from_command_line(cls, arguments: Sequence[str], program: str | None = None) -> Self:
        """Reads `--section.key value` arguments of a program, and the YAML file of `--config`."""
        sections = {name.partition(".")[0] for name in _dotted(cls) if "." in name}
        for argument, value in zip_longest(arguments, arguments[1:], fillvalue="--"):
            if argument in sections and value.startswith("--"):
                raise ValueError(f"expected {argument}.SETTING VALUE. Received: {argument} alone")
        words = _quoted(cls, arguments)
        settings = cls.from_values({"_cli_parse_args": words, "_cli_prog_name": program})
        settings._command = shlex.join([*program.split(), *arguments]) if program else ""
        return settings

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:  # not checked yet
        """Checks settings by name, sections as dictionaries; `config` may name a file."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise ValueError(_one_line(cls, error.errors()[0])) from None
        except SettingsError as error:
            words = values.get("_cli_parse_args", ())
            raise ValueError(_unrecognized(cls, error, words)) from None

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Reads a YAML file alone, such as the `config.yaml` of a run."""
        return cls.from_values({"config": path})

    @property
    def command(self) -> str:
        """The command line that the settings come from; empty for settings made in Python."""
        return self._command

    def to_yaml(self) -> str:
        """Returns the resolved values of all settings as YAML, which `from_file` reads."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)


class _ConfigFile(YamlConfigSettingsSource):
    def __call__(self) -> dict[str, Any]:
        name = self.current_state.get("config")
        return {} if name is None else read_settings(str(name))


def _fields(group: Any, section: Sequence[str | int]) -> dict[str, FieldInfo]:
    """Returns the fields of a section; none if the keys lead into a value, such as a tuple."""
    for key in section:
        field = group.model_fields.get(str(key))
        group = field and field.annotation
        if not (isinstance(group, type) and issubclass(group, BaseModel)):
            return {}
    return group.model_fields


def _dotted(group: type[BaseModel], prefix: str = "--") -> list[str]:
    """Returns the names of all settings on the command line."""
    names = []
    for name, field in group.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Section):
            names += _dotted(section, f"{prefix}{name}.")
        else:
            names.append(prefix + name)
    return names


def _one_line(group: type[BaseModel], error: ErrorDetails) -> str:
    """Describes a wrong setting, and what is allowed, in one line."""
    *section, key = error["loc"] or ("",)
    name = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        return f"{name}: no such setting. {unknown(str(key), _fields(group, section))}"
    if error["type"] == "literal_error":
        choices = re.findall("'(.*?)'", error.get("ctx", {})["expected"])
        field = _fields(group, section).get(str(key))
        if field and field.default is None:
            choices.append("None")
        return f"{name}: no such choice. {unknown(str(error['input']), choices)}"
    reason = error["msg"].removeprefix("Value error, ")
    if "Received" not in reason:
        reason += f". Received: {error['input']!r}"
    return " ".join((f"{name}: {reason}" if name else reason).split())


def _unrecognized(group: type[BaseModel], error: SettingsError, words: Sequence[str]) -> str:
    """Describes a wrong command line argument, and what is allowed."""
    reason = str(error).removeprefix("error parsing CLI: ")
    field = re.search('field "(.*?)"', reason)
    if isinstance(error.__cause__, JSONDecodeError) and field:
        return f"{field[1]}: expected JSON of finite numbers. Received: {error.__cause__.doc!r}"
    _, is_unknown, received = reason.partition("unrecognized arguments: ")
    if not is_unknown and (name := reason.partition("encountered for ")[2].partition(":")[0]):
        kind = "one value without a single bracket or quotation mark"
        given = [value for word, value in pairwise([*words, ""]) if word == f"--{name}"]
        given += [word.partition("=")[2] for word in words if word.startswith(f"--{name}=")]
        received = f"Received: {', '.join(map(repr, given))}" if given else reason
        return f"{name}: expected {kind}, or several with commas between them. {received}"
    if not is_unknown:
        return reason
    name = received.split(" ")[0]
    section = [other for other in _dotted(group) if other.split(".")[0] == name.split(".")[0]]
    return f"no such setting. {unknown(name, section or _dotted(group))}"


def _quoted(cls: type[Settings], arguments: Sequence[str]) -> list[str]:
    """Quotes positional arguments: pydantic-settings splits them at commas.

    Positional arguments come last, because argparse accepts them in one place only.
    """
    fields, mark = cls.model_fields.items(), get_args(CliPositionalArg)[1]
    lists = [n for n, f in fields if mark in f.metadata and get_origin(f.annotation) is list]
    result, positional = [], []
    for option, argument in pairwise(["", *arguments]):
        is_value = option.startswith("-") and option != "--" and "=" not in option
        if not lists or is_value or argument.startswith("-"):
            result.append(argument)
        elif re.search(r'["\x00-\x1f]', argument):
            expected = "expected names without quotation marks and control characters"
            raise ValueError(f"{lists[0]}: {expected}. Received: {argument!r}")
        else:
            positional.append(f'"{argument}"')
    if positional and result and re.fullmatch("--(?!help)[^=]+", result[-1]):
        raise ValueError(f"{result[-1]}: expected a value. Received: none")
    return result + positional
