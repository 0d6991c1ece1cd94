from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pamt_lightning import GCNModule
from pamt_lightning.errors import InputError
from pamt_lightning.graph import Graph
from pamt_lightning.methods.prepared import Prepared
from pamt_lightning.nn import MLP, SparseFeatures
from tests.methods.helpers import quiet_trainer, small_data


def with_features(graph: Graph, dense: torch.Tensor) -> Graph:
    return graph._replace({"x": dense.to_sparse_csr()})


def test_a_layer_is_dense_if_most_entries_are_stored(small_graph: Graph) -> None:
    """By the density of the matrix alone; what is read in parts stays as it is."""
    full = with_features(small_graph, torch.ones(300, 60))
    assert isinstance(Prepared.from_graph(small_graph, torch.float32).x, SparseFeatures)
    whole = Prepared.from_graph(full, torch.float64)
    assert isinstance(whole.x, torch.Tensor)
    assert torch.equal(whole.x, torch.ones(300, 60, dtype=torch.float64))
    assert isinstance(Prepared.from_graph(full, torch.float32, 50).x, SparseFeatures)


def test_a_batch_of_all_nodes_is_no_batch() -> None:
    data = small_data(batch_size=10**6)
    assert data.nodes_at_once is None
    assert small_data(batch_size=100).nodes_at_once == 100


def test_only_methods_that_look_at_one_node_at_a_time_take_batches(tmp_path: Path) -> None:
    data = small_data(batch_size=100)
    model = GCNModule(data.num_features, data.num_classes)
    with pytest.raises(InputError, match="GCN learns from the whole graph at once: leave"):
        quiet_trainer(tmp_path, 1).fit(model, datamodule=data)


@pytest.mark.parametrize("batch_size", [None, 1, 77, 300, 1000])
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_outputs_do_not_depend_on_the_parts(
    small_graph: Graph, batch_size: int | None, kind: str
) -> None:
    dense = torch.rand(300, 60, generator=torch.Generator().manual_seed(0))
    graph = small_graph if kind == "sparse" else small_graph._replace({"x": dense})
    net = MLP(60, 8, 4).eval()
    expected = net(Prepared.from_graph(graph, torch.float32).x)
    found = Prepared.from_graph(graph, torch.float32, batch_size).outputs(net)
    torch.testing.assert_close(found, expected)


def test_attributes_may_stay_where_they_are_and_go_to_the_device_in_parts(
    small_graph: Graph,
) -> None:
    """Where there is no GPU, a device without memory shows what goes there."""
    graph = small_graph.to("meta", attributes=False)
    assert graph.x.device.type == "cpu"
    assert graph.adjacency.device.type == graph.y.device.type == "meta"
    assert small_graph.to("meta").x.device.type == "meta"
    here = Prepared.from_graph(small_graph, torch.float32, 100)
    there = Prepared(graph, here.x, here.adj_norm.to("meta"), here.share, 100)
    seen: list[Any] = []

    def network(x: Any) -> torch.Tensor:
        seen.append((x.shape[0], x.values.device.type))
        return torch.zeros(x.shape[0], 4, device=x.values.device)

    assert there.outputs(network).device.type == "meta"
    assert seen == [(100, "meta")] * 3
    features, own, before = there.batch(torch.arange(5, 25))
    assert isinstance(features, SparseFeatures)
    assert (features.values.device.type, len(own), before) == ("meta", 20, 0)
