"""The project as strangers have it: its wheel, installed outside of the checkout."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NO_CACHES = shutil.ignore_patterns("__pycache__")


def copied_by_the_dockerfile(target: Path) -> None:
    """Copies the files from which the Dockerfile installs, as it does."""
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    copied = [line.split()[1:] for line in lines if line.startswith("COPY ")]
    assert len(copied) == 5
    for name, place in ((name, place) for *names, place in copied for name in names):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / place, ignore=NO_CACHES)
        else:
            (target / place).mkdir(exist_ok=True)
            shutil.copy(ROOT / name, target / place)


@pytest.fixture(scope="session")
def installed(tmp_path_factory) -> Callable[..., str]:
    """Runs commands in an environment of its own, outside of the checkout, in an empty folder.

    The wheel is built from what the Dockerfile copies. Dependencies are those of the lock, taken
    from the environment of the tests; its installation of this project, which is editable, is not
    seen there.
    """
    folder = tmp_path_factory.mktemp("installed")
    source, here, bin_folder = folder / "source", folder / "here", folder / "env" / "bin"
    source.mkdir()
    here.mkdir()
    copied_by_the_dockerfile(source)
    code = f"from setuptools.build_meta import build_wheel; build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=source, check=True, capture_output=True)
    shutil.rmtree(source)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    (packages,) = (folder / "env").glob("lib/python*/site-packages")
    # Packages on a path named in a .pth file are imported; .pth files there are not read.
    (packages / "locked.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(bin_folder / "python"), "install"]
    options = ["--quiet", "--no-deps", "--no-index", "--no-compile", "--ignore-installed"]
    wheels = [*folder.glob("*.whl")]
    subprocess.run([*pip, *options, *wheels], check=True, capture_output=True)
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "KERAS_BACKEND")}
    kept["PATH"] = os.pathsep.join((str(bin_folder), os.environ["PATH"]))

    def run(*command: str | Path, cwd: Path = here) -> str:
        result = subprocess.run(command, cwd=cwd, env=kept, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run
