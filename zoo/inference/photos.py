"""Image files on a command line, and a check of its output file."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic_settings import CliPositionalArg

from zoo.data.image_files import SUFFIXES, Notes, find_images, print_notes
from zoo.errors import require
from zoo.files import expand

Photos = Annotated[
    CliPositionalArg[list[str]],
    Field(description=f"Images ({', '.join(SUFFIXES)}) folders of them, or patterns."),
]


def find_photos(names: Sequence[str], setting: str = "photos") -> list[Path]:
    """Returns the image files that are named, and all images in named folders, sorted.

    Names are paths or patterns; errors begin with the `setting` that lists them.
    """
    photos, notes = [], Notes()
    for name in names:
        if os.path.isfile(name):  # of any suffix; pipes may never end
            photos.append(Path(name))
            continue
        paths = [Path(path) for path in expand(name) if os.path.isdir(path) or os.path.isfile(path)]
        require(paths, f"{setting}: expected an image or a folder", repr(name))
        images = [path for path in find_images(paths, notes) if os.path.isfile(path)]
        if not images:
            raise ValueError(f"{setting}: no images ({', '.join(SUFFIXES)}) in {name!r}")
        photos += images
    print_notes(notes)
    return photos


def check_replaces_none(output: Path | None, photos: Sequence[Path]) -> None:
    """Refuses an output that would replace an image."""
    if output and output.exists() and any(output.samefile(photo) for photo in photos):
        raise ValueError(f"output: {output} is one of the images; expected another file")
