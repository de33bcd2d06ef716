"""Configurations by name, and checks that the settings of all commands share."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_settings import CliPositionalArg
from support.commands import ROWS

from zoo.cli.settings import Section, Settings
from zoo.cli.tasks import load
from zoo.config import TrainConfig
from zoo.fields import Count, Entries, TypedValues, configurations, load_yaml, typed

ROOT = Path(__file__).parents[3]
CONFIGS = ROOT / "tpu_configs"
DECLARES = re.compile(r"^class \w+\((Section|\w*(Settings|Config|Options))\b", re.MULTILINE)


def test_every_configuration_has_its_name():
    assert list(configurations()) == sorted(path.stem for path in CONFIGS.glob("*.yaml"))
    for name, path in configurations().items():
        assert path.samefile(CONFIGS / f"{name}.yaml")


def test_a_name_is_understood_in_any_folder(here):
    """A file of that name comes first."""
    digits = ["--config", "lambda_resnet14_digits"]
    of_file = TrainConfig.from_file(CONFIGS / "lambda_resnet14_digits.yaml")
    assert TrainConfig.from_command_line(digits).to_yaml() == of_file.to_yaml()
    changed = TrainConfig.from_command_line([*digits, "--training.epochs", "7"])
    Path("lambda_resnet14_digits").write_text("training: {epochs: 9}\n")
    other = TrainConfig.from_command_line(digits)
    assert (changed.training.epochs, other.training.epochs) == (7, 9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a/name", "expected a YAML file. Received: 'a/name', not found"),
        ("lambda_resnet14_digit", "or the name of a configuration.*did you mean 'lambda_"),
    ],
)
def test_what_is_neither_a_file_nor_a_name(here, text, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig.from_command_line(["--config", text])


def has_integers(annotation: Any) -> bool:
    return annotation is int or any(map(has_integers, get_args(annotation)))


def integers(group: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    """Names and types of the settings of commands that have integers."""
    for place, field in fields_of(group):
        if has_integers(field.annotation):
            name = ".".join((group.__module__, group.__name__, *place))
            yield name, Annotated[field.annotation, None, *field.metadata]
    for other in group.__subclasses__():
        yield from integers(other)


def test_every_integer_has_bounds():
    for path in (ROOT / "zoo").rglob("*.py"):
        if DECLARES.search(path.read_text(encoding="utf-8")):
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    found = dict(integers(Settings))
    assert len(found) > 60
    for name, annotation in found.items():
        for received in (10**30, -(10**30), (10**30,), (-(10**30),)):
            with pytest.raises(ValidationError):
                print(name, TypeAdapter(annotation).validate_python(received))


@pytest.fixture(params=ROWS)
def settings(request) -> type[Settings]:
    return load(ROWS[request.param].settings)


def test_every_setting_is_described(settings):
    assert [place for place, field in fields_of(settings) if not field.description] == []


def fields_of(group: type[BaseModel], *section: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Places and fields of the settings of a command."""
    for name, field in group.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from fields_of(field.annotation, *section, name)
        elif name != "task":  # which the settings of a task state for themselves
            yield (*section, name), field


def options(group: type[BaseModel]) -> list[tuple[tuple[str, ...], Any]]:
    return [(place, field.annotation) for place, field in fields_of(group)]


def message(read: Any, *arguments: Any) -> str:
    """The error of wrong settings, in one line; empty if they are accepted."""
    received = ""
    try:
        read(*arguments)
    except ValueError as error:
        received = str(error) or "nothing"
    assert "\n" not in received
    return received


def test_every_wrong_value_is_refused_in_one_line(settings):
    """Of every setting, in Python and YAML, by its name."""
    sections = {place[:-1]: Section for place, _ in options(settings) if place[1:]}
    for place, annotation in [*options(settings), *sections.items()]:
        empty = () if get_origin(annotation) is dict else ("",)  # of a command line: no entry
        for wrong in ([[None]], [object()], {3: []}, 10**400, *empty):
            values: Any = wrong
            for key in reversed(place):
                values = {key: values}
            assert message(settings.from_values, values), (place, wrong)


def test_words_that_are_no_value_end_with_one_line(settings):
    """Of every setting of several values on the command line, and a few others; doubled, too."""
    several = [
        f"--{'.'.join(place)}"
        for place, annotation in options(settings)
        if {get_origin(one) for one in (annotation, *get_args(annotation))} & {tuple, list, dict}
    ]
    others = [f"--{'.'.join(place)}" for place, _ in options(settings)]
    for option in dict.fromkeys((*several, *others[:: len(others) // 3 + 1])):
        for words in (["?"], ["["], [","], ["?", option, "!"], [""]):
            message(settings.from_command_line, [option, *words])
    for option in several:
        assert message(settings.from_command_line, [option, "[["])


def test_entries_of_tuples_are_named():
    class Config(Settings):
        dtype: tuple[Literal["float32", "mixed_bfloat16", "mixed_float16"], ...] = ("float32",)

    for words in ("--dtype x", "--dtype float32 --dtype x", "--dtype=float32,x"):
        received = message(Config.from_command_line, words.split())
        choices = "Allowed: float32, mixed_bfloat16, mixed_float16"
        assert re.fullmatch(rf"dtype\.[01]: no such choice\. Received: 'x'\. {choices}", received)
    received = message(Config.from_command_line, ["--dtype", "[float32"])
    assert received.startswith("dtype: expected one value without")
    assert received.endswith("Received: '[float32'")


class Words(Settings):
    """Settings with a list of words."""

    words: CliPositionalArg[list[str]]
    format: str = "png"
    top: Count = 1
    overrides: TypedValues = Field(default={})
    models: Entries[tuple[str, ...]] = ()


def test_positional_words_may_stand_between_options():
    config = Words.from_command_line(["a", "--format", "json", "b,c", "--top=3", "[d]", "7"])
    assert config == Words(words=["a", "b,c", "[d]", "7"], format="json", top=3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        *(
            ([word], "words: expected names without quotation marks")
            for word in ('a"', "\n", "\x1f")
        ),
        (["a", "--top", "3", "--format"], r"--format: expected a value\. Received: none$"),
    ],
)
def test_words_that_are_refused(words, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        Words.from_command_line(words)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"x": [1], "y": null}', {"x": [1], "y": None}),
        ('x="a,b",y=[1, 2]', {"x": "a,b", "y": [1, 2]}),
        ("[x=1,y=0.5,z=CCLL,n=null]", {"x": 1, "y": 0.5, "z": "CCLL", "n": None}),
        ("[]", {}),
        ("x=a=b, y=", {"x": "a=b", "y": None}),
        ("[7,7]", None),
        ('x="', None),
        ('{"x": NaN}', {"x": "NaN"}),
        ("{x: {y: [1, z]}}", {"x": {"y": [1, "z"]}}),
        ("x={y: 1, z: (2)},a=b", {"x": {"y": 1, "z": "(2)"}, "a": "b"}),
        ("x=(3, 4),y=None,z=1e-1,a=(5,)", {"x": [3, 4], "y": None, "z": 0.1, "a": [5]}),
        ("x=None-1,y=1e5b", {"x": "None-1", "y": "1e5b"}),
        ("{" * 10_000, None),
        ("scope=[7,7],x=1e-3 --overrides=y=[]", {"scope": [7, 7], "x": 1e-3, "y": []}),
        ("b@32:scope=[3,3]:key_dim=8,c", ("b@32:scope=[3,3]:key_dim=8", "c")),
        ('["a:s=[1,2]","b"]', ("a:s=[1,2]", "b")),
        ("[a,b]", ("a", "b")),
        ("[]", ()),
        ("7", ("7",)),
    ],
    ids=lambda value: str(value)[:20],
)
def test_forms_of_overrides_and_of_entries(text, values):
    name = "models" if isinstance(values, tuple) else "overrides"
    first, *others = text.split(" --")
    words = ["a", f"--{name}", first, *(f"--{other}" for other in others)]
    if values is None:
        with pytest.raises(ValueError, match=r"^overrides: expected NAME=VALUE, .* Received: "):
            Words.from_command_line(words)
    else:
        assert getattr(Words.from_command_line(words), name) == values


def test_values_of_overrides_are_yaml():
    with pytest.raises(ValueError, match=r"YAML for scope\. Received: '\[7'"):
        typed({"scope": "[7"})


def test_yaml_has_plain_types_and_no_aliases():
    text = "a: {b: [1, 2.5, true, null, text]}\nc: 'd'\n"
    assert load_yaml(text) == {"a": {"b": [1, 2.5, True, None, "text"]}, "c": "d"}
    assert load_yaml(" " * 2**14) is None
    for text, message in (
        (" " * (2**14 + 1), r"at most 16384 characters of YAML\. Received: 16385"),
        ("a: &a 1\nb: *a", r"without aliases\. Received: \*a in line 2"),
        ("a:\n  b: 1\n  b: 2", r"expected every key once\. Received: b in lines 2 and 3"),
        ("[" * 2**14, "fewer nested levels"),
        ("!!python/name:os.system", "could not determine a constructor"),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            load_yaml(text)
        assert "\n" not in str(caught.value)
