"""Costs of kernels, by arithmetic: programs that XLA compiled for an H100 and a TPU v5e.

`programs` has the schedules of these functions of bfloat16 arrays, without their stack frames:

    product     (1024, 2048) @ (2048, 512)
    conv        3x3, strides 2, "same" padding, (8, 28, 28, 64) -> (8, 14, 14, 128)
    conv_in     its gradient by the inputs
    conv_k      its gradient by the kernel
    dw_k        gradient by the kernel of a depthwise 3x3 convolution, (8, 28, 28, 64)
    ew          a * b + 1, (1024, 1024)
    slice       2 * a[:16], (4096, 4096)
    sum         over the first axis of (4096, 4096)
"""

from pathlib import Path

import pytest

from tools.kernels import DEVICES, Kernel, kernels_of

BF16, F32 = 2, 4
IMAGES, KERNEL, OUTPUTS = 8 * 28 * 28 * 64, 3 * 3 * 64 * 128, 8 * 14 * 14 * 128
PADDED = 8 * 29 * 29 * 64
# Products of a kernel of 3 with 14 outputs of stride 2 along one axis: the last one meets padding.
INSIDE = 14 * 3 - 1


def kernels(name: str) -> dict[str, Kernel]:
    text = (Path(__file__).parent / "programs" / f"{name}.txt").read_text()
    return {kernel.name: kernel for kernel in kernels_of(text)}


def the_kernel(name: str) -> Kernel:
    """The one with the most operations."""
    return max(kernels(name).values(), key=lambda kernel: kernel.operations)


@pytest.mark.parametrize(
    ("program", "operations", "numbers"),
    [
        # cuDNN gets padded inputs, and counts products with them.
        ("h100_conv", 2 * 8 * 64 * 128 * (14 * 3) ** 2, PADDED + KERNEL + OUTPUTS),
        ("h100_conv_in", 2 * 8 * 64 * 128 * (14 * 3) ** 2, OUTPUTS + KERNEL + PADDED),
        ("h100_conv_k", 2 * 8 * 64 * 128 * (14 * 3) ** 2, PADDED + OUTPUTS + KERNEL),
        ("h100_dw_k", 2 * 8 * 64 * (28 * 3 - 2) ** 2, 2 * IMAGES + 3 * 3 * 64),
        ("h100_ew", 2 * 1024**2, 3 * 1024**2),
        ("h100_slice", 16 * 4096, 2 * 16 * 4096),
        ("h100_sum", 4096**2, 4096**2 + 4096),
        ("gemm", 2 * 4 * 8 * 16, 2 * (4 * 8 + 8 * 16 + 4 * 16)),  # of a library, in float32
        # One operand was copied to the chip before.
        ("v5e_product", 2 * 1024 * 2048 * 512, 2048 * 512 + 1024 * 512),
        ("v5e_conv", 2 * 8 * 64 * 128 * INSIDE**2, KERNEL + OUTPUTS),
        ("v5e_conv_in", 2 * 8 * 64 * 128 * INSIDE**2, KERNEL + IMAGES),
        ("v5e_conv_k", 2 * 8 * 64 * 128 * INSIDE**2, OUTPUTS + KERNEL),
        ("v5e_ew", 2 * 1024**2, 3 * 1024**2),
        ("v5e_slice", 16 * 4096, 2 * 16 * 4096),
    ],
)
def test_operations_and_bytes(program, operations, numbers):
    kernel = the_kernel(program)
    assert (kernel.operations, kernel.bytes_accessed) == (operations, BF16 * numbers)


def test_a_product_in_four_parts_and_their_sum():
    parts, total = kernels("h100_product").values()
    assert parts.operations == 2 * 1024 * 2048 * 512
    assert parts.bytes_accessed == BF16 * (1024 + 512) * 2048 + F32 * 4 * 1024 * 512
    assert total.operations == 4 * 1024 * 512
    assert total.bytes_accessed == F32 * 4 * 1024 * 512 + BF16 * 1024 * 512
    assert parts.source.endswith("dot_general")


def test_copies_to_the_chip_count_once():
    copy = kernels("v5e_conv")["copy-done"]
    assert (copy.bytes_accessed, copy.operations, copy.cycles) == (BF16 * IMAGES, 0, 0)


def test_loops_count_as_often_as_they_run():
    found = kernels("loop")
    assert {kernel.calls for kernel in found.values()} == {8}
    assert found["twice"].operations == 8 * 100
    for name in ("row", "new"):  # the latter in place; both with two indices
        assert found[name].bytes_accessed == 8 * (F32 * 2 * 100 + 2 * 4)


def test_ideal_times():
    """Of an H100 by its peaks, of a TPU by XLA's cycles; each call is launched."""
    moves = Kernel("name", "", calls=3, bytes_accessed=3.35e9, operations=1e9, cycles=0)
    computes = Kernel("name", "", calls=1, bytes_accessed=1e3, operations=989e9, cycles=1.5e6)
    assert DEVICES["h100"].seconds(moves) == pytest.approx(1e-3 + 3 * 2e-6)
    assert DEVICES["h100"].seconds(computes) == pytest.approx(1e-3 + 2e-6)
    assert DEVICES["v5e"].seconds(computes) == pytest.approx(1e-3)
    assert all(device.source for device in DEVICES.values())


def test_convolutions_of_one_channel_have_no_matrix_units():
    assert the_kernel("h100_dw_k").one_channel
    assert not the_kernel("h100_conv_k").one_channel
    kernel = Kernel("name", "", 1, bytes_accessed=0, operations=67e9, cycles=0, one_channel=True)
    assert DEVICES["h100"].seconds(kernel) == pytest.approx(1e-3 + 2e-6)
