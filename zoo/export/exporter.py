"""Exports of all tasks: writing, comparison with Keras in a new process, and model card."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zoo import model_card
from zoo.errors import printable
from zoo.export.base import Arrays
from zoo.export.formats import FORMATS
from zoo.export.runtimes import run
from zoo.files import next_version, remove
from zoo.model_card import megabytes

Outputs = Mapping[str, Arrays]  # by signature


@dataclass(frozen=True)
class Check:
    """Comparison of one signature with the network."""

    inputs: Arrays
    difference: Callable[[Arrays], float]  # largest difference of named outputs


def largest_difference(expected: Arrays, outputs: Arrays, relative: bool = False) -> float:
    """Compares named outputs; missing ones, other shapes and non-finite values count as inf.

    `relative` divides the differences of each output by its largest expected value.
    """
    largest = 0.0
    for name, array in expected.items():
        if name not in outputs or outputs[name].shape != array.shape:
            return np.inf
        difference = np.abs(outputs[name].astype("float64") - array).max(initial=0)
        if relative:
            difference /= max(np.abs(array).max(), 1e-30)
        largest = max(largest, float(difference) if np.isfinite(difference) else np.inf)
    return largest


@dataclass(frozen=True)
class Export:
    """Export of a network: its writers, comparisons with Keras and model card."""

    title: str  # of the model card
    labels: Sequence[str]  # lines of labels.txt
    fields: Mapping[str, str]  # of the model card
    use: str  # Markdown
    format_name: str  # one of `zoo.export.formats.FORMATS`
    # By title, tried in turn until outputs are equal; each returns lines for the card, if any.
    writers: Mapping[str, Callable[[Path], Sequence[str] | None]]
    checks: Mapping[str, Check]  # by signature
    allowed: float  # largest difference of equal outputs
    precision: str = "float32"  # of the weights
    # Computes lines of further results from the outputs and the folder.
    summary: Callable[[Outputs, Path], Sequence[str]] = lambda outputs, folder: ()
    loss: Callable[[Outputs], str] = lambda outputs: ""  # reason to try the next writer, if any
    batch_size: int | None = None  # of every call; None: any
    run: Callable[..., Outputs] = run  # the files, in a new process

    def to(self, parent: Path) -> Path:
        """Writes the next version in a folder, and returns its folder."""
        with next_version(parent) as (folder, temporary):
            way, notes, outputs, differences = self._write_equal(temporary)
            lines = [*notes, *self.summary(outputs, temporary)]
            if way != next(iter(self.writers)):
                lines.insert(0, f"written as {way}")
            title, space = FORMATS[self.format_name].title, megabytes(temporary)
            fields = {"Format": f"{title}, {self.precision}, {space:.1f} MB", **self.fields}
            rows = [
                (
                    name,
                    self._arrays(self.checks[name].inputs),
                    self._arrays(arrays),
                    f"{differences[name]:.1e}",
                )
                for name, arrays in outputs.items()
            ]
            heads = ("signature", "inputs", "outputs", "largest difference from Keras")
            text = "\n\n".join((model_card.table(heads, rows), *lines))
            sections = {"Inputs and outputs": text, "Use": self.use}
            model_card.write(temporary / "model_card.md", self.title, fields, sections)
            model_card.write_labels(temporary, self.labels)
            space = megabytes(temporary)
        print(f"exported to {printable(folder)}, {space:.1f} MB")
        for line in lines:
            print(line, flush=True)
        return folder

    def _write_equal(self, folder: Path) -> tuple[str, Sequence[str], Outputs, dict[str, float]]:
        """Writes the export in the first way whose outputs equal the network's without a loss.

        Only the last way may have a loss.
        """
        different, last = "", [*self.writers][-1]
        inputs = {name: check.inputs for name, check in self.checks.items()}
        for title, write in self.writers.items():
            remove(folder)
            folder.mkdir()
            print(f"writing {self.title} as {title}", flush=True)
            notes = write(folder) or ()
            print("comparing it with Keras in a new process", flush=True)
            outputs = self.run(self.format_name, folder, inputs, self.batch_size)
            differences = {
                name: check.difference(outputs[name]) for name, check in self.checks.items()
            }
            for name, difference in differences.items():
                print(f"  {name}: largest difference from Keras {difference:.1e}", flush=True)
            name, difference = max(differences.items(), key=lambda item: item[1])
            if difference <= self.allowed and np.isfinite(difference):
                if loss := self.loss(outputs):
                    print(f"  {loss}", flush=True)
                if not loss or title == last:
                    return title, notes, outputs, differences
                continue
            different = f"{difference:.1e} in {name}, more than {self.allowed:.0e}"
            if np.isinf(difference):
                different = f"outputs of {name}: missing, of other shapes, or not finite"
            print(f"  differs by {different}", flush=True)
        raise ValueError(f"the export differs from Keras by {different}; it was removed")

    def _arrays(self, arrays: Arrays) -> str:
        descriptions = []
        for name, array in sorted(arrays.items()):  # a SavedModel returns them in any order
            kind = "string" if array.dtype.kind == "S" else array.dtype
            shape = ", ".join(map(str, (self.batch_size or "batch", *array.shape[1:])))
            descriptions.append(f"`{name}` {kind} ({shape})")
        return ", ".join(descriptions)
