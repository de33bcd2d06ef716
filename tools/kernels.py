"""Kernels of compiled XLA programs: operations, bytes and ideal times on devices.

A program is read from the text of its schedule, `Compiled.as_text()` of JAX: every instruction of
its entry is a kernel, most of them fusions of several instructions.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from pydantic import Field

from zoo.cli.settings import Section

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.-]+) = (.+?) ([a-z][\w-]*)\((.*)$")
_NAME = re.compile(r"%([\w.-]+)")
_ARRAY = re.compile(r"([a-z]\w*)\[([\d,]*)\](?:\{([^}]*)\})?")
FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"}
CALLS = {"while", "call", "conditional"}  # run other computations, whose kernels count
SLICES = {"slice", "dynamic-slice", "gather"}  # read a part of their first operand
UPDATES = {"dynamic-update-slice": 1, "scatter": 2}  # operand position of the update
ARITHMETIC = {"add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "negate"}
ARITHMETIC |= {"exponential", "exponential-minus-one", "log", "log-plus-one", "logistic"}
ARITHMETIC |= {"rsqrt", "sqrt", "tanh"}
# Positions of input, kernel and output of a convolution among its operands and, last, its result.
ROLES = {"BackwardInput": (2, 1, 0), "BackwardFilter": (0, 2, 1)}


@dataclass(frozen=True)
class Array:
    """Type of an array."""

    dtype: str
    shape: tuple[int, ...]
    bytes: float
    far_bytes: float  # in the device's memory: 0 for arrays on a TPU's chip


@dataclass(frozen=True, eq=False)
class Instruction:
    """One instruction of a program."""

    name: str  # unique in the program
    arrays: tuple[Array, ...]  # types of its results
    opcode: str
    operands: tuple["Instruction", ...]
    called: tuple["Computation", ...]
    rest: str  # text after the opcode

    @property
    def size(self) -> int:
        """Number of elements of all results."""
        return sum(math.prod(array.shape) for array in self.arrays)

    def find(self, pattern: str) -> str:
        """Finds the first group of a pattern in the attributes; empty if there is none."""
        return match[1] if (match := re.search(pattern, self.rest)) else ""


Computation = list[Instruction]  # the last one computes the result


@dataclass(frozen=True)
class Kernel:
    """A kernel, and the cost of all its calls together."""

    name: str  # of its instruction
    source: str  # operation of the JAX program that it computes, or the last of several
    calls: int  # how many times it runs
    bytes_accessed: float  # in the device's memory
    operations: float  # floating-point ones
    cycles: float  # XLA's estimate; 0 if there is none
    one_channel: bool = False  # a convolution that matrix units cannot compute


class Device(Section):
    """A device that programs are compiled for: an entry of `devices.yaml`."""

    title: str
    source: str
    packages: dict[str, str]
    platform: str
    topology: dict[str, str]
    environment: dict[str, str] = Field(default={})
    memory_bytes: int
    flops: float
    vector_flops: float | None = None
    bandwidth: float
    launch_seconds: float = 0.0
    hertz: float | None = None

    def seconds(self, kernel: Kernel) -> float:
        """Ideal time of all calls of a kernel."""
        if self.hertz is not None:
            return kernel.cycles / self.hertz
        peak = (kernel.one_channel and self.vector_flops) or self.flops
        slowest = max(kernel.bytes_accessed / self.bandwidth, kernel.operations / peak)
        return slowest + kernel.calls * self.launch_seconds


_TEXT = Path(__file__).with_name("devices.yaml").read_text(encoding="utf-8")
DEVICES = {name: Device(**fields) for name, fields in yaml.safe_load(_TEXT).items()}


def kernels_of(text: str) -> Iterator[Kernel]:
    """Yields the kernels of a scheduled program in their order, from its text."""
    return _kernels(_parse(text), 1)


def _parse(text: str) -> Computation:
    """Parses the entry computation, which follows all that it calls in the text."""
    computations: dict[str, Computation] = {}
    known: dict[str, Instruction] = {}
    inside: Computation = []
    for line in text.splitlines():
        if head := _COMPUTATION.match(line):
            computations[head[1]] = inside = []
        elif match := _INSTRUCTION.match(line):
            name, result, opcode, rest = match.groups()
            arrays = tuple(_array(*parts) for parts in _ARRAY.findall(result))
            operands, _, attributes = rest.partition(")")
            sources = tuple(known[operand] for operand in _NAME.findall(operands))
            called = tuple(computations[n] for n in _NAME.findall(attributes) if n in computations)
            known[name] = Instruction(name, arrays, opcode, sources, called, rest)
            inside.append(known[name])
    return inside


def _array(dtype: str, sizes: str, layout: str) -> Array:
    shape, bits = tuple(map(int, re.findall(r"\d+", sizes))), re.search(r"\d+", dtype)
    size = math.prod(shape) * (int(bits[0]) / 8 if bits else 1)  # `pred` takes a byte
    return Array(dtype, shape, size, 0 if re.search(r"S\([1-9]", layout) else size)


def _kernels(computation: Computation, calls: int) -> Iterator[Kernel]:
    for op in computation:
        if op.opcode in CALLS:
            rounds = _rounds(op) if op.opcode == "while" else 1
            for inner in op.called:
                yield from _kernels(inner, calls * rounds)
        elif op.opcode not in FREE and not op.opcode.endswith("-start"):
            source, cycles = op.find('op_name="([^"]*)"'), op.find('estimated_cycles":"(\\d+)')
            cost = bytes_accessed(op), operations(op), float(cycles or 0)
            moved, count, estimate = (calls * part for part in cost)
            one_channel = "dim_labels" in op.rest and _convolution(op)[1]["i"] == 1
            yield Kernel(op.name, source, calls, moved, count, estimate, one_channel)


def _rounds(op: Instruction) -> int:
    """Counts the rounds of a loop by the bound that its condition compares with."""
    known = op.find('known_trip_count":{"n":"(\\d+)')
    return int(known or max(int(other.find(r"^(\d+)\)") or 1) for other in op.called[0]))


def _results(op: Instruction) -> list[Instruction]:
    """Returns the instructions that compute the results of a kernel."""
    if op.opcode == "fusion":
        return _results(op.called[0][-1])
    if op.opcode in ("tuple", "bitcast"):
        return [other for operand in op.operands for other in _results(operand)]
    return [op]


def bytes_accessed(op: Instruction) -> float:
    """Counts the bytes that a kernel reads and writes; of a sliced array, only the slice."""
    if op.opcode.endswith("-done"):  # an asynchronous copy counts where it ends
        return sum(array.bytes for array in op.arrays)
    if "AllocateBuffer" in op.rest:
        return 0
    moved = list(op.arrays)
    for other in _results(op):
        if other.opcode in UPDATES:  # in place
            moved.remove(other.arrays[0])
            moved.append(other.operands[UPDATES[other.opcode]].arrays[0])
    total = sum(array.far_bytes for array in moved)
    for operand, part in zip(op.operands, _parts_read(op), strict=True):
        total += part * sum(array.far_bytes for array in operand.arrays)
    return total


def _parts_read(op: Instruction) -> list[float]:
    """Returns the fraction of each operand that an instruction reads."""
    if op.opcode == "fusion":
        inner = op.called[0]
        read: dict[str, float] = defaultdict(float, {inner[-1].name: 1.0})
        for other in reversed(inner):
            for operand, part in zip(other.operands, _parts_read(other), strict=True):
                read[operand.name] = min(read[operand.name] + read[other.name] * part, 1)
        parameters = [other for other in inner if other.opcode == "parameter"]
        parameters.sort(key=lambda other: int(other.find(r"^(\d+)\)")))
        return [read[other.name] for other in parameters]
    parts = [1.0] * len(op.operands)
    if op.opcode in SLICES:
        parts[0] = min(op.size / max(op.operands[0].size, 1), 1)
    elif op.opcode in UPDATES:
        parts[0] = 0.0
    return parts


def operations(op: Instruction) -> float:
    """Counts the floating-point operations of a kernel."""
    if op.opcode == "fusion":
        return sum(map(operations, op.called[0]))
    if contracted := op.find(r'lhs_contracting_dim(?:ension)?s"?[=:][{\[]([\d,"]*)'):
        shape = op.operands[0].arrays[0].shape
        depth = math.prod(shape[int(axis)] for axis in re.findall(r"\d+", contracted))
        return 2 * math.prod(op.arrays[0].shape) * depth
    if "dim_labels" in op.rest:
        return _convolved(op)
    if op.opcode.startswith("reduce"):
        return op.operands[0].size
    return op.size if op.opcode in ARITHMETIC and "f" in op.arrays[0].dtype else 0


def _convolution(op: Instruction) -> list[dict[str, int]]:
    """Returns sizes of input, kernel and output of a convolution by letter: b, f, i, o, 0, 1."""
    arrays = [*op.operands[:2], op]
    places = ROLES.get(op.find(r"__cudnn\$conv(Backward\w+)"), (0, 1, 2))
    labels = re.split("_|->", op.find(r"dim_labels=(\w+->\w+)"))
    shapes = [arrays[place].arrays[0].shape for place in places]
    return [dict(zip(*pair, strict=True)) for pair in zip(labels, shapes, strict=True)]


def _convolved(op: Instruction) -> float:
    """Counts the operations of a convolution, without products with padding."""
    source, kernel, output = _convolution(op)
    fields = dict(field.split("=") for field in op.find(r"window=\{(.*?)\}").split())
    count = 2 * output["b"] * kernel["i"] * kernel["o"]
    for axis in filter(str.isdigit, source):
        on_axis = {name: texts.split("x")[int(axis)] for name, texts in fields.items()}
        spread, before = int(on_axis.get("lhs_dilate", 1)), on_axis.get("pad", "0").split("_")[0]
        places = np.arange(output[axis])[:, None] * int(on_axis.get("stride", 1)) - int(before)
        places = places + np.arange(kernel[axis]) * int(on_axis.get("rhs_dilate", 1))
        inside = (places >= 0) & (places <= (source[axis] - 1) * spread) & (places % spread == 0)
        count *= int(inside.sum())
    return count
