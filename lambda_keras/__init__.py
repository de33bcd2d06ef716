"""LambdaNetworks (Bello, ICLR 2021, arXiv:2102.08602) for Keras 3.

Importing it makes its layers known to Keras: in a new process `import lambda_keras` is all that
`keras.models.load_model("model.keras")` needs. It does not import Keras, which takes seconds, so
that `lambda_keras.models.specs` can be read without; `layers` and `applications` do when used.
"""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lambda_keras import applications, layers

__version__ = "0.1.0"

__all__ = ["applications", "layers"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


class _Registration:
    """Finder that imports the layers right after Keras, which then finds them in saved models."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        del target
        spec = PathFinder.find_spec(name, path) if name == "keras" else None
        loader: Any = spec and spec.loader
        if loader:
            import_keras = loader.exec_module

            def exec_module(module: Any) -> None:
                import_keras(module)
                import_module(f"{__name__}.layers")

            loader.exec_module = exec_module
        return spec


if "keras" in sys.modules:
    import_module(f"{__name__}.layers")
else:
    sys.meta_path.insert(0, _Registration())
