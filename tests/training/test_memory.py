from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pamt_lightning.training import memory
from pamt_lightning.training.memory import available_memory, memory_for_each, peak_memory_mb

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_several_processes_divide_what_the_system_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    found = available_memory()
    assert found is not None
    assert 10**7 < found < 10**15
    monkeypatch.setattr(memory, "available_memory", lambda: int(8e9))
    one, four = memory_for_each(1), memory_for_each(4)
    assert one is not None
    assert four is not None
    assert one - four == pytest.approx(6e9, rel=0.01)  # what they have now is theirs
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    assert memory_for_each(1) is None


def test_peak_memory_is_that_of_the_process_in_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = [x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x]
    expected = int(line.split()[1]) * 1024 / 1e6
    assert peak_memory_mb() == pytest.approx(expected, rel=0.01)
    monkeypatch.setattr(memory, "_STATUS", "/no/such/file")
    assert peak_memory_mb() == pytest.approx(expected, rel=0.01)
    monkeypatch.setitem(sys.modules, "resource", None)  # Windows
    assert peak_memory_mb() is None


def test_peak_memory_is_not_that_of_the_process_that_started_this_one() -> None:
    large = np.ones(40_000_000)  # 320 MB
    code = "from pamt_lightning.training.memory import peak_memory_mb; print(peak_memory_mb())"
    command = [sys.executable, "-c", code]  # without torch, which needs more than that
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 1 < float(done.stdout) < large.nbytes / 1e6
