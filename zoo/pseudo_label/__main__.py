"""Pseudo-labels by a teacher: `python -m zoo.pseudo_label label --help`."""

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from zoo.cli.run import run_command
from zoo.errors import unknown

# Each verb is a module with a function of its name and settings, imported on demand.
VERBS = {
    "label": ("LabelConfig", "label images by a teacher, on this machine or by Apache Beam"),
    "select": ("SelectConfig", "select the labels to train on: filtered, balanced, none twice"),
}


def verb_module(verb: str) -> ModuleType:
    """Imports the module of a verb."""
    if verb not in VERBS:
        raise ValueError(f"no such verb. {unknown(verb, VERBS)}")
    return import_module(f"zoo.pseudo_label.{verb}")


def main(arguments: Sequence[str]) -> None:
    """Runs the verb that the first argument names, with the other arguments."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: python -m zoo.pseudo_label VERB [OPTIONS]\n\nverbs:")
        print(*(f"  {verb:8}{summary}" for verb, (_, summary) in VERBS.items()), sep="\n")
        print("\npython -m zoo.pseudo_label VERB --help shows the options of one.")
        return
    verb, *others = arguments
    module = verb_module(verb)
    getattr(module, verb)(getattr(module, VERBS[verb][0]).from_command_line(others))


if __name__ == "__main__":
    run_command(main)
