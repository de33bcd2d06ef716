"""Photographs that a command line names, and the file that its answers go to."""

from collections.abc import Sequence
from pathlib import Path

from zoo.image_folder import SUFFIXES


def quoted(arguments: Sequence[str]) -> list[str]:
    """Quotes what follows no option, for pydantic-settings splits lists at commas."""
    result, is_value = [], False
    for argument in arguments:
        is_option = argument.startswith("-")
        result.append(argument if is_option or is_value else f'"{argument}"')
        is_value = is_option and argument != "--" and "=" not in argument
    return result


def find_photos(names: Sequence[str]) -> list[Path]:
    """Returns the photographs: files as they are named, and all that folders hold, sorted.

    Raises:
        ValueError: If a file or folder does not exist, or a folder holds no photographs.
    """
    photos = []
    for name in names:
        path = Path(name)
        if not path.exists():
            raise ValueError(f"photos: expected a photograph or a folder. Received: {name!r}")
        if path.is_dir():
            files = (p for p in path.rglob("[!.]*") if p.is_file())
            found = sorted(p for p in files if p.suffix.lower() in SUFFIXES)
            if not found:
                raise ValueError(f"photos: no images ({', '.join(SUFFIXES)}) in {name!r}")
            photos += found
        else:
            photos.append(path)
    return photos


def check_output_name(output: Path | None, suffixes: Sequence[str]) -> None:
    """Checks where answers shall be written.

    Raises:
        ValueError: If the name has another suffix, or there can be no such file.
    """
    if output is not None and (output.suffix not in suffixes or output.is_dir()):
        raise ValueError(
            f"expected a file named {' or '.join(suffixes)}. Received: {str(output)!r}"
        )
    for folder in output.parents if output else ():
        if folder.is_file():
            raise ValueError(f"{folder} is a file, not a folder. Received: {str(output)!r}")


def check_replaces_none(output: Path | None, photos: Sequence[Path]) -> None:
    """Checks that writing the answers does not replace a photograph.

    Raises:
        ValueError: If it would.
    """
    if output and output.exists() and any(output.samefile(photo) for photo in photos):
        raise ValueError(f"output: {output} is one of the photographs; expected another file")
