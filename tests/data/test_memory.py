from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.data.memory import content_hash, raw_of
from pamt_lightning.errors import InputError
from pamt_lightning.graph import Graph


def test_a_graph_goes_through_as_if_it_had_been_read(six_nodes: Graph) -> None:
    raw = raw_of(six_nodes)
    assert sp.issparse(raw.features)
    assert np.array_equal(raw.features.toarray(), six_nodes.x.to_dense().numpy())
    assert np.array_equal(raw.adjacency.toarray(), six_nodes.adjacency.to_dense().numpy())
    assert raw.labels.tolist() == six_nodes.y.tolist()
    assert raw.node_ids.tolist() == list("abcdef")
    assert {name: index.tolist() for name, index in raw.given_splits.items()} == {
        "train": [0, 3],
        "val": [1, 4],
        "test": [2],
    }
    assert raw_of(replace(six_nodes, test_index=None)).given_splits == {}


def test_dense_attributes_with_many_zeros_are_words_as_in_a_file(six_nodes: Graph) -> None:
    words = torch.eye(6)
    assert sp.issparse(raw_of(replace(six_nodes, x=words)).features)
    assert not sp.issparse(raw_of(replace(six_nodes, x=words + 1)).features)


def test_the_hash_tells_attributes_edges_and_labels_apart(six_nodes: Graph) -> None:
    others = [
        replace(six_nodes, x=six_nodes.x.to_dense()),
        replace(six_nodes, x=(six_nodes.x.to_dense() * 2).to_sparse_csr()),
        replace(six_nodes, adjacency=(six_nodes.adjacency.to_dense() * 2).to_sparse_csr()),
        replace(six_nodes, y=six_nodes.y.clone().fill_(0)),
    ]
    hashes = [content_hash(graph) for graph in (six_nodes, *others)]
    assert len({*hashes}) == 5
    assert content_hash(replace(six_nodes, node_ids=np.arange(6))) == hashes[0]


def test_the_data_module_serves_a_graph_in_memory_with_its_split(six_nodes: Graph) -> None:
    data = GraphDataModule(graph=six_nodes, split="given", scale_features="none")
    data.setup("fit")
    assert data.in_memory
    assert data.dataset_name == "graph"
    assert torch.equal(data.graph.x.to_dense(), six_nodes.x.to_dense())
    assert data.graph.train_index is not None
    assert data.graph.train_index.tolist() == [0, 3]
    assert (data.num_features, data.num_classes) == (4, 2)
    assert data.state_dict()["in_memory"]
    assert "in_memory" not in GraphDataModule().hparams


def test_errors_speak_of_the_graph(six_nodes: Graph) -> None:
    data = GraphDataModule(graph=six_nodes, train=20)
    with pytest.raises(InputError, match=r"^the graph: Class 0"):
        data.setup("fit")
    with pytest.raises(InputError, match="one of `dataset`, `path` and `graph`"):
        GraphDataModule("pubmed", graph=six_nodes)


def test_weights_become_those_of_the_mean_edge() -> None:
    x = np.random.default_rng(0).random((4, 3))
    edges = [(0, 1), (1, 2), (2, 3)]
    plain, double, uneven = (
        GraphDataModule(graph=Graph.from_edges(edges, x, weights=weights))
        for weights in (None, [2, 2, 2], [1, 2, 3])
    )
    for data in (plain, double, uneven):
        data.setup("predict")
    batches = [data.full_batch() for data in (plain, double, uneven)]
    assert torch.equal(batches[0].adj_norm.values, batches[1].adj_norm.values)
    weights = np.diag([0.5, 1.0, 1.5], 1)
    a = weights + weights.T + np.eye(4)
    root = np.diag(a.sum(axis=1) ** -0.5)
    assert batches[2].adj_norm.to_dense().numpy() == pytest.approx(root @ a @ root, abs=1e-6)
    assert batches[0].weights is None
    assert batches[2].weights is not None
    trust = GraphDataModule(graph=Graph.from_edges(edges, x))
    trust.setup("predict")
    expected = trust.full_batch().edge_trust * batches[2].weights
    assert torch.equal(batches[2].edge_trust, expected)
    moved = batches[2].to("meta").weights
    assert moved is not None
    assert moved.device.type == "meta"
