from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pamt_lightning import PAMTModule, PAMTPlusModule
from pamt_lightning.graph import Graph
from pamt_lightning.training import estimate
from pamt_lightning.training.estimate import LongRunNote, available_memory, duration, memory_of
from tests.methods.helpers import quiet_trainer, small_data


def model_for(graph: Graph, kind: Any = PAMTModule, **options: Any) -> Any:
    torch.manual_seed(0)
    return kind(graph.num_features, graph.num_classes, hidden_dim=8, **options)


def notes_of(tmp_path: Path, capsys: pytest.CaptureFixture[str], epochs: int = 2) -> list[str]:
    data = small_data()
    quiet_trainer(tmp_path, epochs, LongRunNote(data)).fit(model_for(data.graph), datamodule=data)
    lines = capsys.readouterr().err.splitlines()
    return [line for line in lines if "memory" in line or "epoch:" in line]


def test_memory_and_time_of_a_long_run_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "_LARGE", 10)
    monkeypatch.setattr(estimate, "available_memory", lambda: None)
    memory, time = notes_of(tmp_path, capsys, epochs=3)
    assert memory.startswith("240 nodes, ")
    assert memory.endswith(" GB of memory.")
    assert time.startswith("first epoch: ")
    assert "for 3 epochs" in time


def test_too_little_memory_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "_LARGE", 10)
    monkeypatch.setattr(estimate, "memory_for_each", lambda _: 1000)
    memory, warning, _ = notes_of(tmp_path, capsys)
    assert "(0.0 GB available)" in memory
    assert warning.startswith("warning: ")
    assert "--data.batch_size" in warning


def test_a_small_graph_gets_no_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert notes_of(tmp_path, capsys) == []


def test_the_training_is_the_same_with_and_without_the_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = []
    for large in (10, 10**9):
        monkeypatch.setattr(estimate, "_LARGE", large)
        data = small_data()
        model = model_for(data.graph)
        quiet_trainer(tmp_path / str(large), 3, LongRunNote(data)).fit(model, datamodule=data)
        states.append(model.state_dict())
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


def test_memory_grows_with_what_is_held_at_once(small_graph: Graph) -> None:
    def needed(batch_size: int | None = None, ranks: int = 1, kind: Any = PAMTModule) -> float:
        return memory_of(model_for(small_graph, kind), small_graph, batch_size, ranks)

    assert needed(batch_size=10) < needed(batch_size=100) < needed()
    assert needed(ranks=3) < needed(ranks=2) < needed()
    assert needed(kind=PAMTPlusModule) > needed()
    assert memory_of(model_for(small_graph).double(), small_graph, None, 1) > needed()


def test_several_processes_divide_the_memory_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "available_memory", lambda: int(8e9))
    one, four = estimate.memory_for_each(1), estimate.memory_for_each(4)
    assert one is not None
    assert four is not None
    assert one - four == pytest.approx(6e9, rel=0.01)  # what they have now is theirs
    monkeypatch.setattr(estimate, "available_memory", lambda: None)
    assert estimate.memory_for_each(1) is None


def test_free_memory_is_what_the_system_reports() -> None:
    if not Path("/proc/meminfo").is_file():
        pytest.skip("this system has no /proc/meminfo")
    found = available_memory()
    assert found is not None
    assert 10**7 < found < 10**15


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (42.4, "42 s"), (150, "2 min"), (7200, "2.0 h")],
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text
