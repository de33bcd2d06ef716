"""Finished runs with other settings."""

import shutil
from pathlib import Path
from typing import Any

import yaml


def changed(run: Path, folder: Path, **sections: dict[str, Any]) -> Path:
    """Copies a run, as if it had been started with other settings of some sections."""
    shutil.copytree(run, folder)
    file = folder / "config.yaml"
    settings = yaml.safe_load(file.read_text())
    for name, section in sections.items():
        settings[name] |= section
    file.write_text(yaml.safe_dump(settings))
    return folder
