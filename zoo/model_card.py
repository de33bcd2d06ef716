"""Model cards: what people read about a trained network beside its files."""

from collections.abc import Iterable, Mapping
from pathlib import Path


def write(path: Path, title: str, facts: Mapping[str, str], sections: Mapping[str, str]) -> None:
    """Writes a Markdown file: a head line, a table of facts, and sections by their headings."""
    parts = [f"# {title}", table(("", ""), facts.items())]
    parts += [f"## {heading}\n\n{text.strip()}" for heading, text in sections.items()]
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Returns a Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def megabytes(folder: Path) -> float:
    """Returns the size of all files in a folder, in 10^6 bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
