"""Publishes the model of a run: `python -m zoo.publish --run runs/FOLDER hf://OWNER/NAME`."""

import os
import re
import tempfile
from pathlib import Path
from typing import Annotated, Self

from pydantic import model_validator
from pydantic_settings import CliPositionalArg

from zoo.cli.settings import Settings
from zoo.cli.tasks import HUB, task_part
from zoo.errors import printable, refusal, require
from zoo.fields import AnyPath, checked_by
from zoo.files import check_output

NAME = r"[\w-][\w.-]*"


def _check_target(target: str) -> None:
    if target.startswith(HUB):
        if not re.fullmatch(f"{HUB}{NAME}/{NAME}", target, re.ASCII):
            raise ValueError(f"expected {HUB}OWNER/NAME. Received: {target!r}")
    elif "://" in target or not target:
        raise ValueError(f"expected a folder of this machine, or {HUB}OWNER/NAME")


def _check_place(folder: Path) -> None:
    """Checks that a new folder can replace an existing one."""
    place = folder.absolute()
    here = Path.cwd()
    if Path(os.path.realpath(place)) in (here, *here.parents) or os.path.ismount(place):
        other = "not the current one, one around it, or a mounted disk"
        raise refusal(f"expected a folder that can be replaced: {other}", repr(str(folder)))
    check_output(folder)


def _check_license(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+-]*", name):
        raise ValueError(f"expected an SPDX identifier, such as cc-by-4.0. Received: {name!r}")


class PublishConfig(Settings):
    """Publishes the model of a finished run, in a folder or on the Hugging Face Hub.

    zoo.predict, zoo.evaluate, zoo.export and other commands accept the folder, or hf://OWNER/NAME,
    as --model. Labels and preprocessing are included. zoo.train accepts a classifier as
    --model.weights, and Keras itself loads it, too, after import lambda_keras. The hub needs a
    login: hf auth login, or a token in HF_TOKEN. Examples:

      python -m zoo.publish --run runs/digits published/digits
      python -m zoo.publish --run runs/digits hf://OWNER/NAME --license apache-2.0 --private true
    """

    target: CliPositionalArg[Annotated[str, checked_by(_check_target)]]
    """Folder to write, or hf://OWNER/NAME."""
    run: AnyPath
    """Folder of a finished run, local or gs://."""
    license: Annotated[str, checked_by(_check_license)] | None = None
    """License of the weights by its SPDX identifier, such as cc-by-4.0; None: none is stated, and
    others may not know what they may do with them."""
    private: bool = False
    """hf://: makes a new repository private."""
    overwrite: bool = False
    """Replace a model that was published into the folder."""

    @model_validator(mode="after")
    def _fits_target(self) -> Self:
        if self.repository is None:
            require(not self.private, f"private: only for {HUB}OWNER/NAME", repr(self.target))
            _check_place(Path(self.target))
        elif self.overwrite:
            expected = "overwrite: only for a folder; the hub keeps what was there before"
            raise refusal(expected, repr(self.target))
        return self

    @property
    def repository(self) -> str | None:
        """OWNER/NAME on the hub; None for a folder."""
        return self.target.removeprefix(HUB) if self.target.startswith(HUB) else None


def address_of(target: Path) -> str:
    """Returns the folder for the model card: as passed, or its name if the path is private."""
    private = target.is_absolute() or not {"..", "~"}.isdisjoint(target.parts)
    return target.resolve().name if private else str(target)


def run(config: PublishConfig) -> None:
    """Writes the folder, and uploads it if the hub is named."""
    from zoo.publish import folder

    publisher = task_part("publish", config)()
    if config.repository is None:
        target = Path(config.target)
        folder.check_is_free(target, config.overwrite)
        address = address_of(target)
        folder.write(publisher, config.run, target, config.license, address, config.overwrite)
        print(f"published to {printable(target)}")
        return
    user = folder.check_login()
    with tempfile.TemporaryDirectory() as scratch:
        written = Path(scratch) / "network"
        folder.write(publisher, config.run, written, config.license, config.target)
        print(f"uploading as {user}", flush=True)
        page = folder.upload(written, config.repository, config.private)
    print(f"published to {printable(page)}")
