from __future__ import annotations

from typing import Any

import pytest
import torch

from pamt_lightning.errors import InputError
from pamt_lightning.graph import Graph

data_of = pytest.importorskip("torch_geometric.data").Data


def toy(**changes: Any) -> Any:
    fields = {
        "edge_index": torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
        "x": torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]),
        "y": torch.tensor([0, -1, 1]),
    }
    return data_of(**(fields | changes))


def test_attributes_labels_edges_and_weights_are_taken() -> None:
    graph = Graph.from_pyg(toy())
    assert graph.x.tolist() == [[1, 0], [0, 2], [3, 0]]
    assert graph.y.tolist() == [0, -1, 1]
    assert not graph.is_weighted
    weight = torch.tensor([2.0, 2.0, 1.0, 1.0])
    for name, value in (("edge_weight", weight), ("edge_attr", weight[:, None])):
        weighted = Graph.from_pyg(toy(**{name: value}))
        assert weighted.adjacency.to_dense().tolist() == [[0, 2, 0], [2, 0, 1], [0, 1, 0]]
    ignored = Graph.from_pyg(toy(edge_attr=torch.ones(4, 3), x=None, y=None, num_nodes=3))
    assert not ignored.is_weighted
    assert ignored.class_names == ()


def test_masks_become_the_split_without_unlabelled_nodes() -> None:
    masks = {"train_mask": [1, 1, 0], "val_mask": [0, 0, 1], "test_mask": [0, 0, 0]}
    graph = Graph.from_pyg(toy(**{k: torch.tensor(v).bool() for k, v in masks.items()}))
    assert graph.train_index is not None
    assert graph.val_index is not None
    assert graph.train_index.tolist() == [0]
    assert graph.val_index.tolist() == [2]


def test_the_data_of_a_graph_makes_the_same_graph(six_nodes: Graph) -> None:
    data = six_nodes.to_pyg()
    assert data.validate()
    again = Graph.from_pyg(data)
    assert torch.equal(again.x, six_nodes.x.to_dense())
    assert torch.equal(again.y, six_nodes.y)
    assert torch.equal(again.adjacency.to_dense(), six_nodes.adjacency.to_dense())
    assert again.val_index is not None
    assert six_nodes.val_index is not None
    assert torch.equal(again.val_index, six_nodes.val_index)
    weighted = Graph.from_edges([(0, 1), (1, 2)], weights=[1.0, 3.0])
    assert sorted(weighted.to_pyg().edge_weight.tolist()) == [1, 1, 3, 3]


def test_other_data_are_refused() -> None:
    with pytest.raises(InputError, match="`edge_index`"):
        Graph.from_pyg(data_of(x=torch.ones(2, 2)))
    with pytest.raises(InputError, match=r"one class per node, got shape \(3, 4\)"):
        Graph.from_pyg(toy(y=torch.zeros(3, 4)))
