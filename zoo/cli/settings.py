"""Checked settings from a command line and a YAML file, with errors of one line."""

import inspect
import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import pairwise, zip_longest
from json import JSONDecodeError
from pathlib import Path
from typing import Annotated, Any, Self, get_args, get_origin

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    ValidationError,
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
from zoo.files import answering, check_output, local_copy, location

MAX_CHARACTERS = 2**14  # of YAML: the longest configuration of the zoo has 1,200


def configurations() -> dict[str, Path]:
    """Returns the files of the configurations that come with the zoo, by name."""
    zoo = Path(__file__).parents[1]
    installed = zoo / "tpu_configs"
    folder = installed if installed.is_dir() else zoo.parent / "tpu_configs"  # of a checkout
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def _local(path: Any) -> Any:
    if "://" in str(path):
        raise ValueError(f"expected a path of this machine. Received: {str(path)!r}")
    return location(path)


def _local_file(path: Any) -> Any:
    if os.path.basename(str(path)) in ("", "."):  # which `Path` removes
        raise ValueError(f"expected a file. Received: {str(path)!r}, a folder")
    return _local(path)


def checked_by(check: Callable[[Any], object]) -> AfterValidator:
    """Creates a validator from a function that raises `ValueError`."""

    def checked(value: Any) -> Any:
        check(value)
        return value

    return AfterValidator(checked)


def one_of(kind: str, names: Collection[str]) -> AfterValidator:
    """Creates a validator for one of some names."""

    def check(name: str) -> None:
        if name not in names:
            raise ValueError(f"no such {kind}. {unknown(name, names)}")

    return checked_by(check)


def check_file_name(path: Path, suffixes: tuple[str, ...]) -> None:
    """Checks the name of a file to write: its suffix, and that no pipe or the like has it."""
    is_other = os.path.lexists(path) and not os.path.isfile(path)
    if not path.name.endswith(suffixes) or path.name in suffixes or is_other:
        raise ValueError(f"expected a file named {' or '.join(suffixes)}. Received: {str(path)!r}")


def named(*suffixes: str) -> AfterValidator:
    """Creates a validator by `check_file_name`."""
    return checked_by(partial(check_file_name, suffixes=suffixes))


LARGEST = 2**31 - 1  # of integers: TensorFlow's sizes are int32
Count = Annotated[int, Field(ge=1, le=LARGEST)]
BatchSize = Annotated[int, Field(ge=1, le=2**16)]
# `Path` would turn gs://BUCKET/FOLDER into a local folder named "gs:".
LocalPath = Annotated[Path, BeforeValidator(_local)]
OutputFolder = Annotated[LocalPath, checked_by(check_output)]
OutputFile = Annotated[
    Path,
    BeforeValidator(_local_file),
    checked_by(lambda path: check_output(path.parent, path.name)),
]
AnyPath = Annotated[Path, PlainValidator(location), PlainSerializer(str)]
AnyOutputFolder = Annotated[AnyPath, checked_by(check_output)]


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.get_event()
            raise ValueError(
                f"expected YAML without aliases. Received: *{event.anchor} in line "
                f"{event.start_mark.line + 1}"
            )
        return super().compose_node(parent, index)


def load_yaml(text: str) -> Any:
    """Parses a YAML document into plain Python types.

    Aliases are refused: a few lines of them can expand to gigabytes.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(
            f"expected at most {MAX_CHARACTERS} characters of YAML. Received: {len(text)}"
        )
    try:
        return yaml.load(text, _Loader)
    except RecursionError:
        raise ValueError("expected YAML of fewer nested levels") from None
    except Exception as error:  # constructors of tags raise many kinds
        raise ValueError(" ".join(str(error).split())) from None


def typed(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Parses the strings among arguments, which are from a command line, as YAML."""
    values = dict(overrides)
    for key, value in overrides.items():
        if isinstance(value, str):
            try:
                values[key] = load_yaml(value)
            except ValueError as error:
                received = f"Received: {value[:50]!r} ({error})"
                raise ValueError(f"expected a value of YAML for {key}. {received}") from None
    return values


TypedValues = Annotated[dict[str, Any], AfterValidator(typed)]


STRICT = ConfigDict(
    extra="forbid",
    frozen=True,
    validate_default=True,
    allow_inf_nan=False,
    use_attribute_docstrings=True,
)


class Section(BaseModel):
    """A group of settings; unknown keys are errors."""

    model_config = STRICT


class Settings(BaseSettings):
    """Settings of one command; the docstring of a subclass is the head of its `--help`.

    The command line has priority over the YAML file, and that over defaults.
    """

    model_config = SettingsConfigDict(
        **STRICT, cli_avoid_json=True, cli_hide_none_type=True, cli_exit_on_error=False
    )

    config: AnyPath | None = Field(default=None, exclude=True)
    """YAML file with these settings."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.__doc__ = inspect.cleandoc(cls.__doc__ or "")  # --help prints it unchanged

    _command: str = PrivateAttr("")

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, **_: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Leaves environment variables out, which are not saved with a run."""
        return init_settings, ConfigFile(settings_cls)

    @classmethod
    def from_command_line(cls, arguments: Sequence[str], program: str = "") -> Self:
        """Reads `--section.key value` arguments and the YAML file given by `--config`.

        The program is the start of the command: `python -m zoo.train`.
        """
        sections = {name.partition(".")[0] for name in _dotted(cls) if "." in name}
        for argument, value in zip_longest(arguments, arguments[1:], fillvalue="--"):
            if argument in sections and value.startswith("--"):
                raise ValueError(f"expected {argument}.SETTING VALUE. Received: {argument} alone")
        words = _quoted(cls, arguments)
        known = {"_cli_prog_name": program} if program else {}
        settings = cls.from_values({"_cli_parse_args": words, **known})
        if program:
            settings._command = f"{program} {shlex.join(arguments)}".strip()
        return settings

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Checks settings by name, sections as dictionaries; `config` may name a file."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise ValueError(_one_line(cls, error.errors()[0])) from None
        except SettingsError as error:
            raise ValueError(_unrecognized(cls, error)) from None

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Reads a YAML file alone, such as the `config.yaml` of a run."""
        return cls.from_values({"config": path})

    @property
    def command(self) -> str:
        """The command line that the settings come from; empty for those of Python."""
        return self._command

    def to_yaml(self) -> str:
        """Returns the resolved values of all settings as YAML, which `from_file` reads."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)


class ConfigFile(YamlConfigSettingsSource):
    """Source of settings: the YAML file of `--config`, if there is one."""

    def __call__(self) -> dict[str, Any]:
        name = self.current_state.get("config")
        return {} if name is None else read_settings(str(name))


def read_settings(name: str) -> dict[str, Any]:
    """Reads the settings in a YAML file, or in a configuration of the zoo by its name."""
    try:
        path, known = location(name), configurations()
        if name == path.stem and not path.exists():
            if name not in known:
                expected = "expected a YAML file, or the name of a configuration"
                raise ValueError(f"{expected}. {unknown(name, known)}")
            path = known[name]
        with answering(path):
            if not path.is_file():
                found = "not a file" if path.exists() else "not found"
                if path.stem in known:
                    found += f" (did you mean {path.stem!r}, which comes with the zoo?)"
                raise ValueError(f"expected a YAML file. Received: {str(path)!r}, {found}")
            with local_copy(path) as here, here.open("rb") as file:
                content = file.read(4 * MAX_CHARACTERS + 4)
        try:
            values = load_yaml(content.decode())
        except ValueError as error:
            raise ValueError(f"{str(path)!r} is not YAML of settings: {error}") from None
        if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
            raise ValueError(f"expected `key: value` lines in {str(path)!r}")
        if "config" in values:
            raise ValueError(
                f"expected a file that names no other one. Received: {str(path)!r} with "
                f"config={values['config']!r}"
            )
    except ValueError as error:
        raise ValueError(f"config: {error}") from None
    return values


def _fields(group: type[BaseModel], section: Sequence[str | int]) -> dict[str, FieldInfo]:
    """Returns the settings in a (nested) section."""
    for key in section:
        group = group.model_fields[str(key)].annotation  # pyright: ignore[reportAssignmentType]
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
        if _fields(group, section)[str(key)].default is None:
            choices.append("None")
        return f"{name}: no such choice. {unknown(str(error['input']), choices)}"
    reason = error["msg"].removeprefix("Value error, ")
    if "Received" not in reason:
        reason += f". Received: {error['input']!r}"
    return f"{name}: {reason}" if name else reason


def _unrecognized(group: type[BaseModel], error: SettingsError) -> str:
    """Describes a wrong command line argument, and what is allowed."""
    reason = str(error).removeprefix("error parsing CLI: ")
    field = re.search('field "(.*?)"', reason)
    if isinstance(error.__cause__, JSONDecodeError) and field:
        return f"{field[1]}: expected JSON of finite numbers. Received: {error.__cause__.doc!r}"
    _, found, received = reason.partition("unrecognized arguments: ")
    if not found:
        name = reason.partition("Parsing error encountered for ")[2].partition(":")[0]
        return f"{name}: expected NAME=VALUE, several with commas between them" if name else reason
    name = received.split(" ")[0]
    section = [other for other in _dotted(group) if other.split(".")[0] == name.split(".")[0]]
    return f"no such setting. {unknown(name, section or _dotted(group))}"


def _quoted(cls: type[Settings], arguments: Sequence[str]) -> list[str]:
    """Quotes lists and positional arguments, because pydantic-settings splits them at commas.

    Lists are those in overrides, `scope=[7,7]`. Positional arguments come last, because argparse
    takes them from one place alone; those with characters that cannot be quoted are refused, which
    names within folders may have.
    """
    mark = get_args(CliPositionalArg)[1]
    lists = [
        name
        for name, field in cls.model_fields.items()
        if mark in field.metadata and get_origin(field.annotation) is list
    ]
    result, positional = [], []
    for option, argument in pairwise(["", *arguments]):
        if re.match(r"--[\w.]*overrides=", argument) or option.endswith("overrides"):
            argument = re.sub(r"=(\[[^][\"]*\])", r'="\1"', argument)
        is_value = option.startswith("-") and option != "--" and "=" not in option
        if lists and not is_value and not argument.startswith("-"):
            if re.search(r'["\x00-\x1f]', argument):
                raise ValueError(
                    f"{lists[0]}: expected names without quotation marks and control characters. "
                    f"Received: {argument!r}"
                )
            positional.append(f'"{argument}"')
        else:
            result.append(argument)
    return result + positional
