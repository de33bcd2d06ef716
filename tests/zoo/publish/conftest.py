"""A published network."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def published(run, tmp_path_factory) -> Path:
    """Folder that zoo.publish wrote of a run."""
    from zoo.publish.__main__ import main

    folder = tmp_path_factory.mktemp("published") / "digits"
    main(["--run", str(run), str(folder), "--license", "CC-BY-4.0"])
    return folder
