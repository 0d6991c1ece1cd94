from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pamt_lightning.errors import InputError
from pamt_lightning.graph import Graph
from pamt_lightning.interop.arrays import arrays_from_edges, arrays_from_matrix

X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


@pytest.mark.parametrize(
    "edges",
    [
        [(0, 1), (1, 2)],
        np.array([[0, 1], [1, 2], [2, 1], [1, 1]]),
        torch.tensor([[0, 1], [1, 2]]),
        np.array([[0.0, 1.0], [1.0, 2.0]]),  # whole numbers as pandas may hold them
        iter([(0, 1), [1, 2]]),
    ],
)
def test_edges_may_be_pairs_or_arrays(edges: Any) -> None:
    found = arrays_from_edges(edges, X, ["a", None, "b"])
    assert found.adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert found.labels.tolist() == [0, -1, 1]
    assert found.class_names == ("a", "b")
    assert found.node_ids.tolist() == [0, 1, 2]


def test_ids_are_those_given_or_those_of_the_edges() -> None:
    given = arrays_from_edges([("b", "c")], X, node_ids=["c", "a", "b"])
    assert given.node_ids.tolist() == ["c", "a", "b"]
    assert given.adjacency.nonzero()[0].tolist() == [0, 2]
    found = arrays_from_edges([("b", "c"), ("c", "a")], labels={"a": 1, "z": 0})
    assert found.node_ids.tolist() == ["a", "b", "c", "z"]
    assert found.labels.tolist() == [1, -1, -1, 0]
    mixed = arrays_from_edges([(("x", 1), "y"), ("y", 7)])
    assert mixed.node_ids.tolist() == [("x", 1), "y", 7]
    assert len(mixed.class_names) == 0


def test_weights_are_kept_and_their_treatment_can_be_chosen() -> None:
    edges, weights = [(0, 1), (0, 1), (1, 2)], [1.0, 2.0, 5.0]
    assert arrays_from_edges(edges, X, weights=weights).adjacency[0, 1] == 3
    assert arrays_from_edges(edges, X, weights=weights, repeated="max").adjacency[0, 1] == 2
    assert arrays_from_edges(edges, X).adjacency[0, 1] == 1
    assert arrays_from_edges(edges, X, repeated="count").adjacency[0, 1] == 2
    column = torch.tensor(weights)[:, None]
    assert arrays_from_edges(edges, X, weights=column).adjacency[1, 2] == 5


def test_without_attributes_columns_come_from_the_structure() -> None:
    found = arrays_from_edges([(0, 1), (1, 2)])
    assert found.feature_names[:3] == ("log_degree", "log_neighbour_degree", "log_pagerank")
    assert np.exp(np.asarray(found.features)[:, 0]).round().tolist() == [2, 3, 2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: arrays_from_edges([(0, 1, 2)], X), "pairs of node ids"),
        (lambda: arrays_from_edges([0, 1], X), "pairs of node ids"),
        (lambda: arrays_from_edges(np.zeros((2, 5), int), X), r"got \(2, 5\). Use edges.T"),
        (lambda: arrays_from_edges([(0, 3)], X), "Ends of edges must be among the nodes, got 3"),
        (lambda: arrays_from_edges([(0, 1)], X, [0]), "3 `features`, 1 `labels`"),
        (lambda: arrays_from_edges([], labels=None), "at least one node"),
        (lambda: arrays_from_edges([(0, 1)], X, weights=[1, 2]), "1 numbers, one for each edge"),
        (lambda: arrays_from_edges([(0, 1)], X, weights=["a"]), "numbers, one for each"),
        (lambda: arrays_from_edges([(0, 1)], X, {5: "a"}), "`labels` has the id 5"),
        (lambda: arrays_from_edges([(0, 1)], X, feature_names=["a"]), "2 names, got 1"),
        (lambda: arrays_from_matrix(np.zeros((2, 3)), X), r"square matrix, got shape \(2, 3\)"),
        (lambda: arrays_from_matrix(np.zeros((2, 2)), X), "2 rows, got 3"),
        (lambda: arrays_from_matrix(np.zeros((3, 3)), X, [0]), "3 nodes, got 1"),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_a_graph_has_what_the_arrays_say() -> None:
    graph = Graph.from_edges([(0, 1), (1, 2)], X, [1, -1, 0], weights=[2.0, 1.0])
    assert graph.is_weighted
    assert graph.adjacency.to_dense().tolist() == [[0, 2, 0], [2, 0, 1], [0, 1, 0]]
    assert graph.labels.tolist() == ["1", None, "0"]
    assert repr(graph) == (
        "Graph(3 nodes, 2 weighted edges, 2 dense features, 2 classes, 2 labels, cpu)"
    )
    directed = np.array([[0, 3, 0], [0, 5, 0], [0, 2, 0]])
    graph = Graph.from_scipy(X, directed, feature_names=["a", "b"])
    assert graph.adjacency.to_dense().tolist() == [[0, 3, 0], [3, 0, 2], [0, 2, 0]]
    assert graph.feature_names == ("a", "b")
