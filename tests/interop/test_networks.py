from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pamt_lightning.errors import InputError
from pamt_lightning.graph import Graph

nx = pytest.importorskip("networkx")


def people(kind: Any = None) -> Any:
    graph = (kind or nx.Graph)()
    graph.add_node("ann", label="red", age=3, place=(0.5, 1.0), name="Ann")
    graph.add_node(("ben", 2), age=4, place=(0.0, 2.0), name="Ben")
    graph.add_node(7, label="blue", age=5, place=[1.0, 1.0], name="Cleo")
    graph.add_edge("ann", ("ben", 2), weight=2.0)
    graph.add_edge(("ben", 2), 7)
    return graph


def test_numbers_and_vectors_are_taken_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    graph = Graph.from_networkx(people())
    assert graph.node_ids is not None
    assert graph.node_ids.tolist() == ["ann", ("ben", 2), 7]
    assert graph.feature_names == ("age", "place_0", "place_1")
    assert graph.x.tolist() == [[3, 0.5, 1], [4, 0, 2], [5, 1, 1]]
    assert graph.labels.tolist() == ["red", None, "blue"]
    assert graph.adjacency.to_dense().tolist() == [[0, 2, 0], [2, 0, 1], [0, 1, 0]]
    assert capsys.readouterr().out == (
        "labels from `label`; attributes from `age`, `place`; weights from `weight`; "
        "2 undirected weighted edges from 2 rows\n"
    )


def test_what_is_named_is_taken_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    graph = Graph.from_networkx(people(), label="name", features=["age"], weight="weight")
    assert graph.class_names == ("Ann", "Ben", "Cleo")
    assert graph.feature_names == ("age",)
    assert not capsys.readouterr().out
    no_attributes = Graph.from_networkx(people(), label="label", features=[])
    assert no_attributes.feature_names[0] == "log_degree"


def test_directed_and_multigraphs_become_simple_graphs() -> None:
    graph = people(nx.MultiDiGraph)
    graph.add_edge("ann", ("ben", 2), weight=3.0)
    graph.add_edge(("ben", 2), "ann", weight=4.0)
    assert Graph.from_networkx(graph).adjacency.to_dense()[0, 1] == 5
    assert Graph.from_networkx(graph, repeated="max").adjacency.to_dense()[0, 1] == 4
    assert Graph.from_networkx(graph, opposite="sum").adjacency.to_dense()[0, 1] == 9


def test_the_networkx_graph_of_a_graph_makes_the_same_graph() -> None:
    graph = Graph.from_networkx(people())
    found = graph.to_networkx(features=True)
    assert found.nodes["ann"]["label"] == "red"
    assert "label" not in found.nodes[("ben", 2)]
    assert found.edges["ann", ("ben", 2)]["weight"] == 2
    again = Graph.from_networkx(found, features=["x"])
    assert np.array_equal(again.x.numpy(), graph.x.numpy())
    assert again.labels.tolist() == graph.labels.tolist()
    assert again.adjacency.to_dense().tolist() == graph.adjacency.to_dense().tolist()
    assert "x" not in graph.to_networkx().nodes[7]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "labels"}, "No node has 'labels'. Did you mean 'label'"),
        ({"features": ["height"]}, "No node has 'height'"),
        ({"features": ["name"]}, "'name' must be a number, or a vector"),
        ({"features": ["label"]}, "has no 'label'"),
        ({"weight": "wait"}, "No edge has 'wait'"),
    ],
)
def test_what_is_not_there_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Graph.from_networkx(people(), **options)
