"""Resident memory of a call."""

import sys

import numpy as np
import pytest

from zoo.benchmark import memory


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")
def test_peak_is_seen_though_the_memory_is_free_again():
    assert 40e6 < memory.peak_growth(lambda: np.ones(50_000_000, "int8").sum()) < 100e6
    assert memory.peak_growth(lambda: None) < 20e6


def test_other_systems_are_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ValueError, match=r"--memory: expected Linux.*darwin"):
        memory.check_platform("memory")
