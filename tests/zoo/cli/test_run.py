"""Ends of commands: one line and an exit code; what they need that is not installed."""

import pytest
from support.commands import run_without

from zoo.cli.commands import COMMANDS
from zoo.cli.run import run_command

pytestmark = pytest.mark.one_backend


def installing(name: str) -> str:
    what = f"pip install 'SOURCE[{'train' if name == 'yaml' else name}]'"
    return f"error: {name} is not installed: {what}, SOURCE being the folder or the wheel of "


def ends(error: BaseException, capsys) -> tuple[int, str]:
    """Exit code and line of a command that raises an error."""

    def command(_):
        raise error

    with pytest.raises(SystemExit) as caught:
        run_command(command)
    return caught.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("what\nis  wrong"), 2, "error: what is wrong"),
        (FileNotFoundError("not there"), 2, "error: not there"),
        (ImportError("of an extra"), 2, "error: of an extra"),
        *(
            (ModuleNotFoundError("No", name=name), 2, installing(name) + "lambda_keras")
            for name in ("yaml", "jax")
        ),
        (ValueError("\x1b[31m \udce9"), 2, "error: \\x1b[31m \\udce9"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
    ids=repr,
)
def test_commands_end_with_one_line(capsys, error, code, line):
    assert ends(error, capsys) == (code, f"{line}\n")


def test_long_messages_are_cut_in_the_middle(capsys):
    text = f"expected a name. Received: {'a' * 200_000}, in the end"
    _, error = ends(ValueError(text), capsys)
    assert error.startswith("error: expected a name. Received: aaa")
    assert "aaa [198,0" in error
    assert error.endswith("aaa, in the end\n")
    assert 2000 < len(error) < 2100


def test_faults_of_the_program_keep_their_traceback():
    def command(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_command(command)


TRAIN = ("PIL", "matplotlib", "official", "sklearn", "tensorflow_datasets")
HEAVY = (*TRAIN, "keras", "tensorflow", "jax", "torch")


def test_help_and_refusals_come_without_keras_and_other_heavy_packages():
    """Of every command; without pydantic, as after `pip install .`, its extra is named."""
    names = [f"zoo.{verb} {part}" for verb, row in COMMANDS.items() for part in row.parts or [""]]
    for line in run_without(HEAVY, *(f"{name} --help" for name in names)):
        assert line.startswith("0 ")
    for line in run_without(HEAVY, *(f"{name} --no_such 3" for name in names)):
        assert line.startswith("2 error: no such setting. Received: '--no_such'")
    for line in run_without(("pydantic", "yaml"), *names):
        assert line.startswith("2 error: ")
        assert " is not installed: pip install 'SOURCE[train]', SOURCE being the folder" in line


@pytest.mark.slow
def test_commands_without_the_extra_train_work_or_name_it(tmp_path):
    (tmp_path / "photo.png").write_bytes(b"")
    printed = run_without(
        TRAIN,
        "zoo.list",
        "zoo.flops lambda_resnet14 --image_size 16",
        "zoo.train --help",
        f"zoo.train --output_dir {tmp_path}/run",
        f"zoo.predict --model lambda_resnet14 --weights imagenet {tmp_path}/photo.png "
        f"--output {tmp_path}/sheet.png",
    )
    assert [line[:2] for line in printed[:3]] == ["0 "] * 3
    for line in printed[3:]:
        assert line.startswith("2 error: matplotlib is not installed: pip install 'SOURCE[train]'")
    assert [path.name for path in tmp_path.iterdir()] == ["photo.png"]
