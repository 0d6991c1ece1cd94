from __future__ import annotations

import dataclasses
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from pamt_lightning import PAMTModule, PAMTPlusModule, PTSModule
from pamt_lightning.graph import Graph
from pamt_lightning.kernels.features import CsrPattern
from pamt_lightning.training import estimate
from pamt_lightning.training.estimate import (
    LongRunNote,
    RunEstimate,
    available_memory,
    describe,
    duration,
    epoch_seconds_of,
    estimate_run,
    memory_of,
)
from tests.methods.helpers import quiet_trainer, small_data


def model_for(graph: Graph, kind: Any = PAMTModule, **options: Any) -> Any:
    return kind(graph.num_features, graph.num_classes, hidden_dim=8, **options)


def test_memory_and_time_of_a_long_run_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "_LARGE", 10)
    data = small_data()
    data.setup("fit")
    model = model_for(data.graph)
    quiet_trainer(tmp_path, 2, LongRunNote()).fit(model, datamodule=data)
    text = capsys.readouterr().err
    assert f"{data.graph.num_nodes:,} nodes, {data.graph.num_edges:,} edges: about " in text
    assert " GB of memory" in text
    assert " per epoch, " in text
    assert " for 2 epochs." in text


def test_a_small_graph_gets_no_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = small_data()
    data.setup("fit")
    quiet_trainer(tmp_path, 1, LongRunNote()).fit(model_for(data.graph), datamodule=data)
    assert "GB of memory" not in capsys.readouterr().err


def test_the_training_is_the_same_with_and_without_the_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = []
    for large in (10, 10**9):
        monkeypatch.setattr(estimate, "_LARGE", large)
        data = small_data()
        data.setup("fit")
        pl.seed_everything(0, verbose=False)
        model = model_for(data.graph, dropout=0.5, refresh_interval=2)
        quiet_trainer(tmp_path / str(large), 4, LongRunNote()).fit(model, datamodule=data)
        states.append(model.state_dict())
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name])


def test_an_estimate_leaves_gradients_and_random_numbers_alone(small_graph: Graph) -> None:
    model = model_for(small_graph, dropout=0.5)
    model.net.output.weight.grad = torch.ones_like(model.net.output.weight)
    before = torch.get_rng_state()
    estimate_run(model, small_graph)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.net.input.weight.grad is None
    assert bool((model.net.output.weight.grad == 1).all())


def test_memory_grows_with_what_is_held_at_once(small_graph: Graph) -> None:
    def needed(batch_size: int | None = None, ranks: int = 1, kind: Any = PAMTModule) -> float:
        return memory_of(model_for(small_graph, kind), small_graph, batch_size, ranks)

    assert needed(batch_size=10) < needed(batch_size=100) < needed()
    assert needed(ranks=3) < needed(ranks=2) < needed()
    assert needed(kind=PAMTPlusModule) > needed()
    double = model_for(small_graph).double()
    assert memory_of(double, small_graph, None, 1) > needed()


def test_time_is_that_of_the_parts_scaled_up(
    small_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every piece of work takes a second here, so the formula can be seen."""
    monkeypatch.setattr(estimate, "_seconds", lambda work: 1.0)
    monkeypatch.setattr(estimate, "_NODES_TRIED", small_graph.num_nodes // 3)
    monkeypatch.setattr(estimate, "_seconds_per_product", lambda graph, columns, dtype: 5.0)
    step_and_forward = 2.0 * 3
    pts = model_for(small_graph, PTSModule, num_steps=10)
    assert epoch_seconds_of(pts, small_graph) == pytest.approx(step_and_forward + 10 * 5)
    assert epoch_seconds_of(pts, small_graph, world_size=2) == pytest.approx(
        step_and_forward / 2 + 25
    )
    own = model_for(small_graph, num_steps=10, refresh_interval=1, inference="network")
    assert epoch_seconds_of(own, small_graph) == pytest.approx(3.0 * 3 + (10 + 2) * 5)
    plus = model_for(small_graph, PAMTPlusModule, num_steps=10, refresh_interval=0, mask_from=0)
    assert epoch_seconds_of(plus, small_graph) == pytest.approx(3 * step_and_forward + 40 * 5)


def test_steps_in_batches_keep_nothing(small_graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transpose that is kept makes a step on the whole graph faster; batches have none."""
    transposed = []
    made = CsrPattern.__dict__["transposed"].func

    def counted(pattern: CsrPattern) -> Any:
        transposed.append(pattern)
        return made(pattern)

    counting = cached_property(counted)
    counting.__set_name__(CsrPattern, "transposed")
    monkeypatch.setattr(CsrPattern, "transposed", counting)
    epoch_seconds_of(model_for(small_graph), small_graph)
    assert len(transposed) == 1
    epoch_seconds_of(model_for(small_graph), small_graph, batch_size=100)
    assert len(transposed) == 3


def test_a_product_is_scaled_to_all_entries(
    small_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "_seconds", lambda work: (work(), 1.0)[1])
    whole = estimate._seconds_per_product(small_graph, 4)
    entries = 2 * small_graph.num_edges
    assert whole == pytest.approx((entries + small_graph.num_nodes) / entries)
    monkeypatch.setattr(estimate, "_NEIGHBOURS_TRIED", entries // 4)
    assert estimate._seconds_per_product(small_graph, 4) == pytest.approx(4 * whole, rel=0.1)


def test_too_little_memory_is_warned_of(small_graph: Graph) -> None:
    found = RunEstimate(3e9, 0.5)
    (line,) = describe(found, small_graph, int(4e9), 100)
    assert "about 3.0 GB of memory (4.0 GB available) and 0.5 s per epoch, 50 s for 100" in line
    line, warning = describe(found, small_graph, int(2e9), None)
    assert warning.startswith("warning: ")
    assert "--data.batch_size" in warning
    assert line.endswith("per epoch.")
    assert len(describe(found, small_graph, None, -1)) == 1


def test_several_processes_divide_the_memory_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "available_memory", lambda: int(8e9))
    one, four = estimate.memory_for_each(1), estimate.memory_for_each(4)
    assert one is not None
    assert four is not None
    assert one - four == pytest.approx(6e9, rel=0.01)  # what they have now is theirs
    monkeypatch.setattr(estimate, "available_memory", lambda: None)
    assert estimate.memory_for_each(1) is None


def test_an_estimate_knows_double_precision(small_graph: Graph) -> None:
    assert estimate_run(model_for(small_graph).double(), small_graph).epoch_seconds > 0
    dense = dataclasses.replace(small_graph, x=small_graph.x.to_dense())
    assert estimate_run(model_for(small_graph).double(), dense).epoch_seconds > 0


def test_free_memory_is_what_the_system_reports() -> None:
    found = available_memory()
    if not Path("/proc/meminfo").is_file():
        pytest.skip("this system has no /proc/meminfo")
    assert found is not None
    assert 10**7 < found < 10**15


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (42.4, "42 s"), (150, "2 min"), (7200, "2.0 h")],
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text
