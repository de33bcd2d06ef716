"""LambdaNetworks (Bello, ICLR 2021, arXiv:2102.08602) for Keras 3.

Importing it registers its layers with Keras: in a new process, `import lambda_keras` is all that
`keras.models.load_model("model.keras")` needs.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from lambda_keras import applications, layers, weights

__version__ = "0.1.0"

__all__ = ["applications", "layers", "weights"]


class _AfterKeras:
    """Imports the layers, which registers them, as soon as a program has imported Keras.

    Before that, `lambda_keras.models.specs` is read without the seconds that Keras takes.
    """

    def find_spec(self, name: str, *place: Any) -> "ModuleSpec | None":
        if name != "keras":
            return None
        finders = [finder for finder in sys.meta_path if finder is not self]
        spec = next(filter(None, (finder.find_spec(name, *place) for finder in finders)), None)
        if spec and spec.loader:
            run = spec.loader.exec_module

            def exec_module(module: "ModuleType") -> None:
                run(module)
                sys.meta_path.remove(self)
                import_module("lambda_keras.layers")

            spec.loader.exec_module = exec_module
        return spec


if sys.modules.get("keras"):
    import_module("lambda_keras.layers")
elif not any(type(finder).__name__ == "_AfterKeras" for finder in sys.meta_path):  # in a reload
    sys.meta_path.insert(0, _AfterKeras())


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f"lambda_keras.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
