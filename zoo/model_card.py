"""Model cards: Markdown files that describe a trained network, next to its files."""

import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path

LABELS = "labels.txt"  # names of the classes, next to a card
PREPROCESSING = "preprocessing.json"  # size, crop and interpolation, in a SavedModel


def write(
    path: Path,
    title: str,
    facts: Mapping[str, str],
    sections: Mapping[str, str],
    front_matter: str = "",
) -> None:
    """Writes a Markdown file: a title, a table of card fields, and sections by their headings.

    `front_matter` is YAML metadata, without the lines around it.
    """
    parts = [f"---\n{front_matter.strip()}\n---"] if front_matter else []
    parts += [f"# {title}", table(("", ""), facts.items())]
    parts += [f"## {heading}\n\n{text.strip()}" for heading, text in sections.items()]
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def write_labels(folder: Path, class_names: Iterable[str]) -> None:
    """Writes the class names to `labels.txt`, one per line."""
    text = "".join(f"{name}\n" for name in class_names)
    (folder / LABELS).write_text(text, encoding="utf-8")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Returns a Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def megabytes(folder: Path) -> float:
    """Returns the size of all files in a folder, in 10^6 bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def versions(*packages: str) -> str:
    """Returns the versions of packages and Python."""
    named = (f"{name} {version(name)}" for name in packages)
    return ", ".join([*named, f"Python {platform.python_version()}"])
