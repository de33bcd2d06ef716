"""Image files that a command line names, and the file that its predictions are written to."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic_settings import CliPositionalArg

from zoo.data.image_files import SUFFIXES, divide, name_left_out

Photos = Annotated[
    CliPositionalArg[list[str]],
    Field(description=f"Images ({', '.join(SUFFIXES)}) or folders of them."),
]


def find_photos(names: Sequence[str]) -> list[Path]:
    """Returns the image files that are named, and all images in the named folders, sorted."""
    photos = []
    for name in names:
        path = Path(name)
        if os.path.isdir(path):
            found, others = divide(p for p in path.rglob("*") if p.is_file())
            name_left_out(others)
            if not found:
                raise ValueError(f"photos: no images ({', '.join(SUFFIXES)}) in {name!r}")
            photos += found
        elif os.path.isfile(path):  # pipes may never end
            photos.append(path)
        else:
            raise ValueError(f"photos: expected an image or a folder. Received: {name!r}")
    return photos


def check_replaces_none(output: Path | None, photos: Sequence[Path]) -> None:
    """Refuses an output that would replace an image."""
    if output and output.exists() and any(output.samefile(photo) for photo in photos):
        raise ValueError(f"output: {output} is one of the images; expected another file")
