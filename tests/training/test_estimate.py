from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pamt_lightning import PAMTModule, PAMTPlusModule
from pamt_lightning.graph import Graph
from pamt_lightning.training import estimate
from pamt_lightning.training.estimate import LongRunNote, duration, memory_of
from tests.methods.helpers import assert_same_bits, quiet_trainer, small_data


def model_for(graph: Graph, kind: Any = PAMTModule, **options: Any) -> Any:
    torch.manual_seed(0)
    return kind(graph.num_features, graph.num_classes, hidden_dim=8, **options)


@pytest.mark.parametrize("available", [None, 1000])
def test_memory_and_time_of_a_long_run_are_printed(
    available: int | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(estimate, "memory_for_each", lambda _: available)
    states = []
    for large in (10, 10**9):
        monkeypatch.setattr(estimate, "_LARGE", large)
        data = small_data()
        model = model_for(data.graph)
        quiet_trainer(tmp_path / str(large), 3, LongRunNote(data)).fit(model, datamodule=data)
        states.append(model.state_dict())
    assert_same_bits(*states)  # the note changes nothing
    lines = capsys.readouterr().err.splitlines()
    # Of the large graph only.
    memory, *warning, time = [line for line in lines if "memory" in line or "epoch:" in line]
    assert memory.startswith("240 nodes, ")
    assert memory.endswith(" GB of memory." if available is None else " (0.0 GB available).")
    assert [line.split(":")[0] for line in warning] == ["warning"] * (available is not None)
    assert all("--data.batch_size" in line for line in warning)
    assert time.startswith("first epoch: ")
    assert "for 3 epochs" in time


def test_memory_grows_with_what_is_held_at_once(small_graph: Graph) -> None:
    def needed(batch_size: int | None = None, ranks: int = 1, kind: Any = PAMTModule) -> float:
        return memory_of(model_for(small_graph, kind), small_graph, batch_size, ranks)

    assert needed(batch_size=10) < needed(batch_size=100) < needed()
    assert needed(ranks=3) < needed(ranks=2) < needed()
    assert needed(kind=PAMTPlusModule) > needed()
    # The search for neighbours copies the attributes, whatever the size of a step.
    wide = replace(small_graph, x=torch.rand(small_graph.num_nodes, 5000))
    model = model_for(wide, PAMTPlusModule)
    more = memory_of(model, wide, 10, 1) - memory_of(model_for(wide), wide, 10, 1)
    assert more > 5 * 4 * wide.x.numel()
    assert memory_of(model_for(small_graph).double(), small_graph, None, 1) > needed()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (42.4, "42 s"), (150, "2 min"), (7200, "2.0 h")],
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text
