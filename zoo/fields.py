"""Types of settings: paths, files to write, counts; their values and files in YAML."""

import os
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, PlainValidator
from pydantic_core import from_json
from pydantic_settings import NoDecode

from zoo.errors import check_known, errors_of, refusal, require
from zoo.files import answering, check_output, local_copy, location, why_pointer

MAX_CHARACTERS = 2**14  # of YAML: the longest configuration of the zoo has 1,200


def _local(path: Any) -> Any:
    require("://" not in str(path), "expected a path of this machine", repr(str(path)))
    return location(path)


def _local_file(path: Any) -> Any:
    if os.path.basename(str(path)) in ("", "."):  # `Path` would remove them
        raise ValueError(f"expected a file. Received: {str(path)!r}, a folder")
    return _local(path)


def checked_by(check: Callable[[Any], object]) -> AfterValidator:
    """Creates a validator from a function that raises `ValueError`."""

    def checked(value: Any) -> Any:
        check(value)
        return value

    return AfterValidator(checked)


def one_of(kind: str, names: Collection[str]) -> AfterValidator:
    """Creates a validator that accepts the given names only."""
    return checked_by(lambda name: check_known(name, names, f"no such {kind}"))


def check_file_name(path: Path, suffixes: tuple[str, ...]) -> None:
    """Checks the name of a file to write: its suffix, and that it is no folder, pipe or device."""
    is_other = os.path.lexists(path) and not os.path.isfile(path)
    if not path.name.endswith(suffixes) or path.name in suffixes or is_other:
        raise ValueError(f"expected a file named {' or '.join(suffixes)}. Received: {str(path)!r}")


def named(*suffixes: str) -> AfterValidator:
    """Creates a validator by `check_file_name`."""
    return checked_by(partial(check_file_name, suffixes=suffixes))


LARGEST = 2**31 - 1  # of integers: TensorFlow's sizes are int32
Count = Annotated[int, Field(ge=1, le=LARGEST)]
BatchSize = Annotated[int, Field(ge=1, le=2**16)]
IMAGE_SIZES = range(8, 2049)  # height and width in pixels
ImageSize = Annotated[int, Field(ge=IMAGE_SIZES[0], le=IMAGE_SIZES[-1])]
SIZE_RANGE = f"from {IMAGE_SIZES[0]} to {IMAGE_SIZES[-1]}"
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
            expected = "expected YAML without aliases"
            raise refusal(expected, f"*{event.anchor} in line {event.start_mark.line + 1}")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: dict[Any, int] = {}
        for key, _ in node.value:
            name, line = self.construct_object(key, deep=True), key.start_mark.line + 1
            if isinstance(name, str) and seen.setdefault(name, line) != line:
                raise refusal("expected every key once", f"{name} in lines {seen[name]} and {line}")
        return super().construct_mapping(node, deep)


class _PythonLoader(_Loader):
    """YAML where None and numbers such as 1e-3 may also be spelled as in Python."""


_PythonLoader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile("None$"), ["N"])
_PythonLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def load_yaml(text: str, loader: type[yaml.SafeLoader] = _Loader) -> Any:
    """Parses a YAML document into plain Python types.

    Aliases are refused: a few lines of them can expand to gigabytes.
    """
    expected = f"expected at most {MAX_CHARACTERS} characters of YAML"
    require(len(text) <= MAX_CHARACTERS, expected, len(text))
    try:
        return yaml.load(text, loader)
    except RecursionError:
        raise ValueError("expected YAML of fewer nested levels") from None
    except Exception as error:  # constructors of tags raise many kinds
        raise ValueError(" ".join(str(error).split())) from None


def typed(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Parses string values, as from a command line, as YAML or Python; keeps other values."""
    values = dict(overrides)
    for key, value in overrides.items():
        if isinstance(value, str):
            is_tuple = value.startswith("(") and value.endswith(")")
            try:
                values[key] = load_yaml(f"[{value[1:-1]}]" if is_tuple else value, _PythonLoader)
            except ValueError as error:
                received = f"Received: {value[:50]!r} ({error})"
                raise ValueError(f"expected a value of YAML for {key}. {received}") from None
    return values


def _split(text: str) -> list[str]:
    """Splits text at commas outside of brackets and quotation marks."""
    entries, depth, is_quoted = [""], 0, False
    for character in text[1:-1] if text.startswith("[") and text.endswith("]") else text:
        is_quoted ^= character == '"'
        if not is_quoted:
            depth = max(0, depth + (character in "([{") - (character in ")]}"))
        if character == "," and depth == 0 and not is_quoted:
            entries.append("")
        else:
            entries[-1] += character
    return [entry.strip() for entry in entries]


def read_entries(text: Any) -> Any:
    """Splits text of a command line at commas outside of brackets and quotation marks."""
    if not isinstance(text, str):
        return text
    if text.startswith("["):
        with suppress(ValueError):
            return from_json(text, allow_inf_nan=False)
    return _split(text)


def read_values(text: Any) -> Any:
    """Reads NAME=VALUE of a command line, or several with commas between them, or a mapping."""
    if not isinstance(text, str):
        return text
    if text.startswith("{"):
        with suppress(ValueError):
            if isinstance(values := load_yaml(text, _PythonLoader), dict):
                return values
    pairs = [entry.partition("=") for entry in _split(text) if entry]
    if text.count('"') % 2 or not all(equals for _, equals, _ in pairs):
        expected = "expected NAME=VALUE, or several with commas between them"
        raise ValueError(f"{expected}. Received: {text!r}")
    return {name.strip('"'): value.strip('"') for name, _, value in pairs}


T = TypeVar("T")
# pydantic-settings would divide lists within entries, too.
Entries = Annotated[T, NoDecode, BeforeValidator(read_entries)]
TypedValues = Annotated[
    dict[str, Any], NoDecode, BeforeValidator(read_values), AfterValidator(typed)
]


def configurations() -> dict[str, Path]:
    """Returns the files of the configurations that come with the zoo, by name."""
    zoo = Path(__file__).parent
    installed = zoo / "tpu_configs"
    folder = installed if installed.is_dir() else zoo.parent / "tpu_configs"  # of a checkout
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


@errors_of("config")
def read_settings(name: str) -> dict[str, Any]:
    """Reads the settings in a YAML file, or in a configuration of the zoo by its name."""
    path, known = location(name), configurations()
    if name == path.stem and not path.exists():
        check_known(name, known, "expected a YAML file, or the name of a configuration")
        path = known[name]
    with answering(path):
        if not path.is_file():
            state = "not a file" if path.exists() else "not found"
            if path.stem in known:
                state += f" (did you mean {path.stem!r}, which comes with the zoo?)"
            raise refusal("expected a YAML file", f"{str(path)!r}, {state}")
        with local_copy(path) as here, here.open("rb") as file:
            content = file.read(4 * MAX_CHARACTERS + 4)
    if why := why_pointer(content):
        raise refusal("expected a YAML file", f"{str(path)!r}, {why}")
    with errors_of(f"{str(path)!r} is not YAML of settings"):
        values = load_yaml(content.decode())
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise ValueError(f"expected `key: value` lines in {str(path)!r}")
    if "config" in values:
        received = f"{str(path)!r} with config={values['config']!r}"
        raise refusal("expected a file that names no other one", received)
    return values
