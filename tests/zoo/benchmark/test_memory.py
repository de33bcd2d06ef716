"""Resident memory of a call."""

import sys

import numpy as np
import pytest

from zoo.benchmark import memory
from zoo.benchmark.cases import MODES, Case

linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")


@linux
def test_peak_is_seen_though_the_memory_is_free_again():
    assert 40e6 < memory.peak_growth(lambda: np.ones(50_000_000, "int8").sum()) < 100e6
    assert memory.peak_growth(lambda: None) < 20e6


@linux
@pytest.mark.slow
def test_layer_in_a_fresh_process(monkeypatch):
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")  # whose allocator would keep the memory
    peaks = memory.measure(Case(32, 8, 1, 3), "einsum", "float32", "tensorflow", xla=False)
    assert set(peaks) == set(MODES)
    assert peaks[MODES[0]] > Case(32, 8, 1, 3).dense_bytes(4) / 2


def test_other_systems_are_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ValueError, match=r"expected Linux.*darwin"):
        memory.check_platform()
