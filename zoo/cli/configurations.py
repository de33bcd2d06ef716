"""Configurations that come with the zoo, by name."""

from pathlib import Path

from zoo.errors import unknown

SUFFIX = ".yaml"


def list_configurations() -> list[str]:
    """Returns the names of all configurations, sorted."""
    return sorted(path.stem for path in _folder().glob(f"*{SUFFIX}"))


def find_configuration(name: str) -> Path:
    """Finds the file of a configuration.

    Example:
    >>> from zoo.cli.configurations import find_configuration
    >>> find_configuration("lambda_resnet50_image_folder").name
    'lambda_resnet50_image_folder.yaml'

    Raises:
        ValueError: If the name is unknown; the message has the nearest one.
    """
    names = list_configurations()
    if name not in names:
        raise ValueError(
            f"expected a YAML file, or the name of a configuration. {unknown(name, names)}"
        )
    return _folder() / f"{name}{SUFFIX}"


def is_name(text: str) -> bool:
    """Returns whether a text is a name: no file exists there, and it has no folder or suffix."""
    return text == Path(text).stem and not Path(text).exists()


def _folder() -> Path:
    zoo = Path(__file__).parents[1]
    installed = zoo / "tpu_configs"
    return installed if installed.is_dir() else zoo.parent / "tpu_configs"  # of a checkout
