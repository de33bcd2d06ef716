"""Console command: `lambda-keras VERB` runs `python -m zoo.VERB`."""

import runpy
import sys
from collections.abc import Sequence

from zoo.cli.run import BACKENDS, run_command
from zoo.errors import unknown

VERBS = {
    "list": "list the models of the zoo",
    "train": "train a classifier or a detector, or resume a run",
    "evaluate": "measure a classifier or a detector on test images",
    "predict": "classify images, or find objects in them",
    "pseudo_label": "label images by a teacher, and select labels to train on",
    "export": "export a model for a server or another runtime",
    "publish": "write a trained model with its card, or upload it to the Hugging Face Hub",
    "maps": "draw attention maps beside lambdas",
    "demo": "serve a page with predictions and lambda maps",
    "serve": "serve an export over HTTP",
    "client": "send images to a server",
    "convert": "convert weights of other libraries for Keras",
    "flops": "count the operations of a model",
    "benchmark": "measure time and memory of layers, networks and exports",
}


def main() -> None:
    """Runs the verb of the first argument of this process with the other arguments."""
    if sys.argv[1:] and sys.argv[1] in VERBS:
        verb, *arguments = sys.argv[1:]
        sys.argv = [f"lambda-keras {verb}", *arguments]
        runpy.run_module(f"zoo.{verb}", run_name="__main__", alter_sys=True)
    else:
        run_command(_explain, BACKENDS)


def _explain(arguments: Sequence[str]) -> None:
    if arguments and arguments[0] not in ("-h", "--help"):
        raise ValueError(f"expected a verb. {unknown(arguments[0], VERBS)}")
    print("usage: lambda-keras VERB [OPTIONS]\n\nverbs:")
    for verb, summary in VERBS.items():
        print(f"  {verb:14}{summary}")
    print("\nlambda-keras VERB --help shows the options of one.")
