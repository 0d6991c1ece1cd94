"""The batch: what a step receives, whole or in parts, in one process or in several."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from pamt_lightning.data.batch import GraphBatch
from pamt_lightning.errors import InputError
from pamt_lightning.functional import attribute_neighbours, edge_trust
from pamt_lightning.graph import Graph
from pamt_lightning.kernels.features import DenseFeatures, SparseFeatures
from pamt_lightning.kernels.sharding import RowShare
from pamt_lightning.nn import MLP
from tests.matrices import normalized


@pytest.fixture
def _no_gather(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets one process be each of several, in tests that do not read the values of Â."""
    monkeypatch.setattr(RowShare, "gather", lambda self, part: part.new_ones(self.num_rows))


@pytest.fixture(params=["sparse", "dense"])
def graph(small_graph: Graph, request: pytest.FixtureRequest) -> Graph:
    x = torch.rand(300, 60, generator=torch.Generator().manual_seed(0))
    return small_graph if request.param == "sparse" else replace(small_graph, x=x)


def test_a_batch_holds_what_a_step_needs(small_graph: Graph) -> None:
    batch = GraphBatch.from_graph(small_graph, torch.float64)
    assert (batch.num_nodes, batch.dtype, batch.device.type) == (300, torch.float64, "cpu")
    assert torch.equal(batch.adj_norm.to_dense(), normalized(small_graph).to_dense())
    train = small_graph.train_index
    assert train is not None
    assert torch.equal(batch.train_index, train)
    assert torch.equal(batch.train_y, small_graph.y[train])
    weight = torch.eye(60, dtype=torch.float64)
    torch.testing.assert_close(batch.x.linear(weight), small_graph.x.to_dense().double())
    assert torch.equal(batch.train_x.linear(weight), batch.x.linear(weight)[train])
    assert batch.train_x is batch.at(torch.arange(3)).train_x  # computed once


def test_a_graph_without_a_split_has_no_training_or_validation_nodes(small_graph: Graph) -> None:
    batch = GraphBatch.from_graph(replace(small_graph, train_index=None, val_index=None))
    with pytest.raises(InputError, match="no training nodes"):
        _ = batch.train_y
    with pytest.raises(InputError, match="no validation nodes"):
        _ = batch.val_index


def test_attributes_are_dense_if_most_entries_are_stored(small_graph: Graph) -> None:
    """By the density of the whole matrix; those that are read in parts stay sparse."""
    full = replace(small_graph, x=torch.ones(300, 60).to_sparse_csr())
    assert isinstance(GraphBatch.from_graph(small_graph).x, SparseFeatures)
    whole = GraphBatch.from_graph(full, torch.float64).x
    assert isinstance(whole, DenseFeatures)
    assert torch.equal(whole.matrix, torch.ones(300, 60, dtype=torch.float64))
    assert isinstance(GraphBatch.from_graph(full, batch_size=50).x, SparseFeatures)


@pytest.mark.parametrize("batch_size", [None, 1, 77, 300, 1000])
def test_outputs_do_not_depend_on_the_parts(graph: Graph, batch_size: int | None) -> None:
    net = MLP(60, 8, 4).eval()
    found = GraphBatch.from_graph(graph, batch_size=batch_size).outputs(net)
    torch.testing.assert_close(found, net(graph.x))


@pytest.mark.parametrize("batch_size", [None, 77])
def test_outputs_may_be_those_of_other_inputs(small_graph: Graph, batch_size: int | None) -> None:
    net, x = MLP(5, 8, 4).eval(), torch.rand(300, 5)
    found = GraphBatch.from_graph(small_graph, batch_size=batch_size).outputs(net, DenseFeatures(x))
    torch.testing.assert_close(found, net(x))


@pytest.mark.usefixtures("_no_gather")
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_processes_take_together_the_step_of_one(graph: Graph, world_size: int) -> None:
    """Rows, labels and dropout of a batch of nodes are divided, and none is lost or changed."""
    nodes = torch.tensor([2, 3, 99, 100, 101, 150, 220, 299])
    net, labels = MLP(60, 8, 4, dropout=0.5).train(), torch.rand(300, 4)
    whole = GraphBatch.from_graph(graph, batch_size=50).at(nodes)
    torch.manual_seed(0)
    expected = net(whole.x)
    assert torch.equal(whole.rows_of(labels), labels[nodes])
    found, rows = [], []
    for rank in range(world_size):
        part = GraphBatch.from_graph(graph, batch_size=50, rank=rank, world_size=world_size)
        step = part.at(nodes)
        assert step.nodes is nodes
        torch.manual_seed(0)
        found.append(net(step.x))
        rows.append(step.rows_of(labels))
        assert torch.equal(part.rows_of(labels), labels[part.rows.local])
        assert step.adj_norm is part.adj_norm
    torch.testing.assert_close(torch.cat(found), expected)
    assert torch.equal(torch.cat(rows), labels[nodes])


def test_trust_is_that_of_the_graph_and_computed_once(small_graph: Graph) -> None:
    batch = GraphBatch.from_graph(small_graph)
    generator = torch.Generator().manual_seed(0)
    assert torch.equal(batch.edge_trust, edge_trust(batch.adj_norm, small_graph.x, generator))
    assert batch.at(torch.arange(3)).edge_trust is batch.edge_trust


def test_neighbours_are_those_of_the_graph_and_computed_once(graph: Graph) -> None:
    batch = GraphBatch.from_graph(graph)
    found = batch.neighbours(3)
    assert torch.equal(found.to_dense(), attribute_neighbours(graph.x, 3).to_dense())
    assert batch.at(torch.arange(3)).neighbours(3) is found
    assert len(batch.neighbours(2).values()) < len(found.values())


@pytest.mark.usefixtures("_no_gather")
@pytest.mark.parametrize("batch_size", [None, 50])
def test_the_energy_is_the_sum_of_squares_over_all_processes(
    graph: Graph, batch_size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pamt_lightning.data.batch._VALUES_AT_ONCE", 7)
    batch = GraphBatch.from_graph(graph, batch_size=batch_size)
    expected = graph.x.to_dense().double().square().sum()
    torch.testing.assert_close(batch.energy, expected)
    part = GraphBatch.from_graph(graph, batch_size=batch_size).at(torch.arange(3))
    torch.testing.assert_close(part.energy, expected)
    parts = [GraphBatch.from_graph(graph, rank=rank, world_size=3).energy for rank in range(3)]
    torch.testing.assert_close(torch.stack(parts).sum(), expected)


@pytest.mark.parametrize("batch_size", [None, 77])
@pytest.mark.parametrize("hops", [0, 1, 2])
def test_the_share_of_the_energy_tends_to_that_of_the_dense_product(
    graph: Graph, hops: int, batch_size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, adj = graph.x.to_dense().double(), normalized(graph).to_dense()
    left = torch.linalg.matrix_power(adj, hops) @ x
    expected = float(left.square().sum() / x.square().sum())
    batch = GraphBatch.from_graph(graph, batch_size=batch_size)
    assert batch.energy_share(hops) == pytest.approx(expected, rel=0.2 if hops else 1e-6)
    assert batch.energy_share(hops) == batch.energy_share(hops)  # the same signs
    monkeypatch.setattr("pamt_lightning.data.batch._NUM_PROBES", 10_000)
    assert batch.energy_share(hops) == pytest.approx(expected, rel=0.02)


def test_huge_attributes_have_a_finite_energy_and_none_have_none(small_graph: Graph) -> None:
    huge = replace(small_graph, x=torch.full((300, 2), 3e38))
    assert float(GraphBatch.from_graph(huge).energy) == pytest.approx(600 * 3e38**2)
    none = replace(small_graph, x=torch.zeros(300, 60).to_sparse_csr())
    assert float(GraphBatch.from_graph(none).energy) == 0.0
    assert GraphBatch.from_graph(none).energy_share(2) == 1.0


def test_a_batch_moves_to_a_device_with_its_attributes_whole_or_in_parts(
    small_graph: Graph,
) -> None:
    """Where there is no GPU, a device without memory shows what goes there."""
    batch = GraphBatch.from_graph(small_graph)
    assert batch.to("cpu") is batch
    there = batch.to(torch.device("meta"))
    assert {there.device.type, there.x.device.type, there.graph.device.type} == {"meta"}
    assert batch.at(torch.arange(3)).to("cpu").nodes is not None

    parts = GraphBatch.from_graph(small_graph, batch_size=100)
    moved = parts.to("meta")
    assert (moved.device.type, moved.x.device.type) == ("meta", "cpu")
    assert (moved.graph.x.device.type, moved.graph.y.device.type) == ("cpu", "meta")
    seen: list[Any] = []

    def network(x: Any) -> torch.Tensor:
        seen.append((x.shape[0], x.device.type))
        return torch.zeros(x.shape[0], 4, device=x.device)

    assert moved.outputs(network).device.type == "meta"
    assert seen == [(100, "meta")] * 3
